"""How models write calls in some dialects.

Rule: written out by hand, from what models of these families write; fcshim's templates are not used.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fcshim.events import JSON

Call = tuple[str, Mapping[str, JSON]]
"""A tool's name and its arguments."""


@dataclass(frozen=True)
class Notation:
    """Writes the calls of one reply; `json_results` says that the prompt shows results as JSON strings."""

    write: Callable[[Sequence[Call]], str]
    json_results: bool = False


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _untagged(value: JSON) -> str:
    return value if isinstance(value, str) else _json(value)


def _in_tags(tag: str) -> Callable[[Sequence[Call]], str]:
    def write(calls: Sequence[Call]) -> str:
        documents = [_json({"name": name, "arguments": arguments}) for name, arguments in calls]
        return "\n".join(f"<{tag}>\n{document}\n</{tag}>" for document in documents)

    return write


def _qwen3_xml(calls: Sequence[Call]) -> str:
    def one(name: str, arguments: Mapping[str, JSON]) -> str:
        values = {key: _untagged(value) for key, value in arguments.items()}
        parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"

    return "\n".join(one(*call) for call in calls)


def _glm(calls: Sequence[Call]) -> str:
    def one(name: str, arguments: Mapping[str, JSON]) -> str:
        values = {key: _untagged(value) for key, value in arguments.items()}
        pairs = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in values.items())
        return f"<tool_call>{name}\n{pairs}</tool_call>"

    return "\n".join(one(*call) for call in calls)


def _llama3_json(calls: Sequence[Call]) -> str:
    return "; ".join(_json({"name": name, "parameters": arguments}) for name, arguments in calls)


def _mistral(calls: Sequence[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{_json(arguments)}" for name, arguments in calls)


def _kimi_k2(calls: Sequence[Call]) -> str:
    def one(number: int, name: str, arguments: Mapping[str, JSON]) -> str:
        head = f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>"
        return f"{head}{_json(arguments)}<|tool_call_end|>"

    written = "".join(one(number, *call) for number, call in enumerate(calls))
    return f"<|tool_calls_section_begin|>{written}<|tool_calls_section_end|>"


def _harmony(calls: Sequence[Call]) -> str:
    head = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}<|call|>"
    return "".join(head.format(name, _json(arguments)) for name, arguments in calls)


def _pythonic(calls: Sequence[Call]) -> str:
    def one(name: str, arguments: Mapping[str, JSON]) -> str:
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"

    return f"[{', '.join(one(*call) for call in calls)}]"


NOTATIONS = {
    "function_call": Notation(_in_tags("function_call")),
    "qwen3_xml": Notation(_qwen3_xml),
    "hermes": Notation(_in_tags("tool_call"), json_results=True),
    "glm": Notation(_glm),
    "llama3_json": Notation(_llama3_json, json_results=True),
    "kimi_k2": Notation(_kimi_k2),
    "mistral": Notation(_mistral, json_results=True),
    "harmony": Notation(_harmony),
    "pythonic": Notation(_pythonic),
}
