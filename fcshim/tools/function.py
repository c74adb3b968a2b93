"""A Python function as a tool.

The schema comes from the function's signature; name and description come from its name and docstring unless they
are given. Docstrings in the styles of Google, NumPy and Sphinx are parsed; another is the description as a whole.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping

import msgspec

from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON
from fcshim.extras import naming_extra
from fcshim.messages import Tool
from fcshim.tools.base import NO_CONTEXT, CallContext, Traits
from fcshim.tools.result import ToolResult, failed, succeeded
from fcshim.tools.signature import ToolSignature


class DocstringParts(msgspec.Struct, frozen=True):
    """The description of a function, and of each parameter that its docstring documents."""

    summary: str
    parameters: dict[str, str]


def parse_docstring(function: Callable[..., JSON]) -> DocstringParts:
    """Parse the function's docstring; white space in a parameter's description becomes single spaces."""
    described = function.func if isinstance(function, functools.partial) else function
    docstring = inspect.getdoc(described) or ""
    with naming_extra():
        import docstring_parser  # noqa: PLC0415 - of an extra
    try:
        parsed = docstring_parser.parse(docstring)
    except docstring_parser.ParseError:
        return DocstringParts(summary=docstring, parameters={})
    parameters = {
        name: " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
        for name in map(str.strip, parameter.arg_name.split(","))  # NumPy style: `x, y : float`
    }
    return DocstringParts(summary=(parsed.description or "").strip(), parameters=parameters)


_MESSAGE_LIMIT = 2_000
"""Characters of an exception's text that the model gets; some exceptions carry whole documents."""

_DEFAULT_TRAITS = Traits()


class FunctionTool:
    """A sync or async function as a tool; `definition` is what the model gets.

    A parameter of type `CallContext` is hidden from the model and receives the call's context. The return value becomes
    the result; a `ToolResult` is used unchanged. Raises `ConfigError` for a function that cannot be a tool: a
    generator, one without a name, or one with a parameter that has no JSON Schema.
    """

    def __init__(
        self,
        function: Callable[..., JSON],
        *,
        name: str | None = None,
        description: str | None = None,
        traits: Traits = _DEFAULT_TRAITS,
    ) -> None:
        if not callable(function):
            raise ConfigError(f"{function!r:.80} cannot be called: expected a function, or a tool with `call`")
        self._function = function
        own_name: str = getattr(function, "__name__", "")
        if not name and not own_name.isidentifier():
            raise ConfigError(f"{function!r:.80} has no name of its own: FunctionTool(function, name=...)")
        named = name or own_name
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(f"tool {named!r}: a generator; a tool returns one value")
        described = parse_docstring(function)
        self._signature = ToolSignature(function, named, described.parameters)
        self.traits = traits
        self.definition = Tool(
            name=named,
            description=described.summary if description is None else description,
            parameters=self._signature.schema,
            returns=self._signature.returns,
        )

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Call the function with JSON values; a failure is a result with `is_error`.

        A sync function runs in a thread, which runs to its end even if this call is cancelled.
        """
        try:
            value = await self._invoke(self._signature.bind(arguments, context))
        except ToolError as error:
            return failed(error.message)
        except Exception as error:  # noqa: BLE001 - a tool's own code may raise anything, and the model must see it
            return failed(f"{type(error).__name__}: {error}"[:_MESSAGE_LIMIT])
        return value if isinstance(value, ToolResult) else succeeded(value)

    async def _invoke(self, bound: inspect.BoundArguments) -> JSON:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*bound.args, **bound.kwargs)
        value = await asyncio.to_thread(self._function, *bound.args, **bound.kwargs)
        return await value if inspect.isawaitable(value) else value
