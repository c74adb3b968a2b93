"""The tools that are offered: which one a written name means, and what its schema expects.

Rule: the exact name comes first. Otherwise the tool with the same letters and digits is meant, also after a namespace.
If two tools could be meant, none is: a lost call is asked for again, a wrong one runs.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from fcshim.messages import Tool
from fcshim.schema.expect import ANY, Expectation, SchemaExpectations
from fcshim.schema.limits import StepLimit
from fcshim.schema.validate import MAX_VALIDATION_STEPS, first_violation

NAMESPACES = ("", "functions.", "tools.", "default_api.")
"""What models write before the name of a tool."""
_COERCION_STEPS = 30_000
"""Steps of all work on schemas in one reply but validation, at most 50 ms: hundreds of coerced values take a tenth.
Beyond it arguments stay as the model wrote them."""
_VALIDATION_STEPS = 2 * MAX_VALIDATION_STEPS
"""Steps of the validation of all calls in one reply."""
_MAX_NAME = 256
"""Characters of a name that are compared: the names of tools have at most 128."""
_MAX_NAMESPACES = 4
_AROUND = " \t\r\n\"'`*"
"""White space, quotes and Markdown around a name."""
_SEPARATORS = re.compile(r"[\s\-_./:\\\u2010-\u2015\uff0d\uff3f]+")
r"""What stands between the words of a name, also escaped for Markdown (`read\_file`). Everything else distinguishes
tools, such as the vowel signs of Hindi."""
_ARGUMENT = re.compile(r"(?:\s[-./:\\*\u2010-\u2015\uff0d]*[-./\\*\u2010-\u2015\uff0d]|\.\.)\s*\Z")
"""Signs behind a name that may be its argument, or stand for its arguments (`list_files ..`, `list_files ...`)."""
_LEAKED_TOKENS = re.compile(
    r"(?:\s{0,4}<\|(?:message|channel|constrain|start|end|call|return|eom|eot|sep|im_end)\|>"
    r"\s{0,4}(?:assistant|commentary|analysis|final|json)?){1,4}\s{0,4}\Z"
)
"""Tokens of a chat template that models write behind a name (`read<|message|>`, `read<|channel|>commentary`)."""
_NAMESPACE = re.compile(
    r"(?:functions?|tools?|default_api|api)(?:\.|::?|/)"  # words that name no tool and no server
    r"|\w{1,64}::"
    r"|mcp__\w{1,64}?__"  # an MCP server, as Claude Code names its tools
)
"""Prefixes of a name. `web.search` has none: it may be another tool than the `search` that is offered."""


class ToolLookup:
    """The tools of one request, for one reply; `None` if they are not known, so that any name is one."""

    __slots__ = (
        "_beginnings",
        "_by_letters",
        "_tools",
        "_validation_steps",
        "are_known",
        "schemas",
    )

    def __init__(self, tools: Mapping[str, Tool] | None) -> None:
        self._tools = tools
        self.are_known = tools is not None
        self._by_letters: dict[str, str | None] = {}
        """The tool with these letters and digits, once it is needed; None if several have them."""
        self._beginnings: list[str] = []
        """What a call in Python's syntax may begin with, sorted, once it is needed."""
        self.schemas = SchemaExpectations(_COERCION_STEPS)
        self._validation_steps = StepLimit(_VALIDATION_STEPS)

    # Names.

    def find(self, name: str) -> str | None:
        """Return the one offered tool that `name` can mean, or None."""
        if self._tools is None:
            return name.strip() or None
        if name in self._tools:
            return name
        written = name[: _MAX_NAME + 1]
        if _ARGUMENT.search(written):
            return None
        bare = written.strip(_AROUND).removesuffix("()")
        if "<|" in bare:
            bare = _LEAKED_TOKENS.sub("", bare)
        if len(bare) > _MAX_NAME:
            return None
        readings = list(_without_namespaces(bare))
        found = {self._same_letters(self._tools, reading) for reading in readings} - {None}
        namespace = bare[: len(bare) - len(readings[-1])].rstrip(":./")
        return found.pop() if len(found) == 1 and self._same_letters(self._tools, namespace) is None else None

    def _same_letters(self, tools: Mapping[str, Tool], name: str) -> str | None:
        if not self._by_letters:
            for tool in tools:
                letters = _letters(tool)
                self._by_letters[letters] = None if letters in self._by_letters else tool
            self._by_letters[""] = None
        return name if name in tools else self._by_letters.get(_letters(name))

    def offers(self, name: str) -> bool:
        """Return whether this name means an offered tool."""
        return self.find(name) is not None

    def offers_exactly(self, name: str) -> bool:
        """Return whether this is the name of an offered tool, in the same spelling."""
        return self._tools is None or any(name.removeprefix(namespace) in self._tools for namespace in NAMESPACES)

    def may_begin_call(self, prefix: str) -> bool:
        """Return whether `print` or the name of an offered tool, in the same spelling, begins like this."""
        if self._tools is None:
            return True
        if not self._beginnings:
            self._beginnings = sorted(("print", *(f"{before}{name}" for before in NAMESPACES for name in self._tools)))
        at = bisect_left(self._beginnings, prefix)
        return at < len(self._beginnings) and self._beginnings[at].startswith(prefix)

    def begins_with_name(self, text: str) -> bool | None:
        """Return whether the first line of `text` is the name of an offered tool; None if more text is needed."""
        lines = [f"{name}\n" for name in self._tools or ()]
        if any(map(text.startswith, lines)):
            return True
        return None if any(line.startswith(text) for line in lines) else False

    # Parameters.

    def parameter_names(self, name: str) -> tuple[str, ...]:
        """Return this tool's parameters in the order of its schema; an empty tuple if the tools are not known."""
        schema = None if self._tools is None else self._tools[name].parameters
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return tuple(properties) if isinstance(properties, dict) else ()

    def has_parameter(self, name: str, parameter: str) -> bool:
        """Return whether the offered tool that `name` means has this parameter; True if the tools are not known."""
        tool = self.find(name)
        return self._tools is None or (tool is not None and parameter in self.parameter_names(tool))

    def expectation_of(self, name: str) -> Expectation:
        """Return what the schema expects of the arguments of this tool."""
        return ANY if self._tools is None else self.schemas.get(name, self._tools[name].parameters)

    def is_strict(self, name: str) -> bool:
        """Return whether a violation of this tool's schema is an error."""
        return self._tools is not None and name in self._tools and self._tools[name].strict

    def find_violation(self, name: str, arguments: str) -> str | None:
        """Return how complete arguments violate the schema of this tool. Raises `StepLimitError`."""
        if self._tools is None or name not in self._tools:
            return None
        steps = self._validation_steps.part(MAX_VALIDATION_STEPS)
        return first_violation(self._tools[name].parameters, json.loads(arguments), steps)

    # Custom tools.

    def takes_text(self, name: str) -> bool:
        """Return whether the offered tool that `name` means is a custom one, which takes one text."""
        tool = None if self._tools is None else self.find(name)
        return tool is not None and self._tools is not None and self._tools[tool].custom

    def text_arguments(self, name: str, text: str) -> str:
        """Return the arguments of a custom tool for the text that was written in their place.

        A text that is the JSON of these arguments stands for them.
        """
        parameter = self.parameter_names(name)[0]
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        wrapped = isinstance(value, dict) and value.keys() == {parameter} and isinstance(value[parameter], str)
        return text if wrapped else json.dumps({parameter: text}, ensure_ascii=False)


def _letters(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _without_namespaces(name: str) -> Iterator[str]:
    """Yield the name, then the name without its first namespace, and so on."""
    yield name
    pos = 0
    for _ in range(_MAX_NAMESPACES):
        found = _NAMESPACE.match(name, pos)
        if found is None:
            return
        pos = found.end()
        yield name[pos:]
