"""Settings that `Request` has no field for, read and written.

Rule: a setting that other engines know is stored in `extra` under the Chat API's name. The client's own fields are
stored as well, for an upstream of this API.
"""

from typing import Final

from fcshim.codecs.body_fields import FieldRules
from fcshim.codecs.option_table import write_options
from fcshim.events import JSON
from fcshim.messages import ClientOptions, Request

API: Final = "anthropic"

_KNOWN_FIELDS = frozenset(
    [
        "model", "messages", "system", "stream", "stop_sequences", "max_tokens", "temperature", "top_p",
        "tools", "tool_choice", "thread",
    ]
)  # fmt: skip


FIELDS = FieldRules(known=_KNOWN_FIELDS | {"top_k", "output_config", "output_format", "thinking", "mcp_servers"})


class AnthropicClientOptions(ClientOptions, frozen=True, kw_only=True):
    """The client's options for the form of the reply."""

    thinking: bool = False
    """Thinking blocks. A client that did not request them takes the first block of a reply for its text."""
    toolsets: dict[str, str] = {}
    """The toolsets of the tools that belong to one, which their calls repeat."""

    def call_fields(self, name: str) -> dict[str, str]:
        """Return what the call of a tool has besides the fields of every call."""
        return {"toolset_name": self.toolsets[name]} if name in self.toolsets else {}


_EFFORTS = {"xhigh": "high", "max": "high"}
"""Efforts that most engines refuse, and those that are the nearest."""


def read_extra(source: dict[str, JSON]) -> dict[str, JSON]:
    """Return the fields that local engines understand."""
    extra: dict[str, JSON] = {}
    if isinstance(source.get("top_k"), int):
        extra["top_k"] = source["top_k"]
    config = source.get("output_config")
    match config.get("format") if isinstance(config, dict) else source.get("output_format"):
        case {"type": "json_schema", "schema": dict(schema)}:
            json_schema = {"name": "reply", "schema": schema, "strict": True}
            extra["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    effort = config.get("effort") if isinstance(config, dict) else None
    if isinstance(effort, str):
        extra["reasoning_effort"] = _EFFORTS.get(effort, effort)
    return extra


def read_verbatim(source: dict[str, JSON]) -> dict[str, dict[str, JSON]]:
    """Return the fields that only this API has."""
    return {API: {name: value for name, value in source.items() if name not in _KNOWN_FIELDS}}


def write_settings(request: Request) -> dict[str, JSON]:
    """Return the fields for an upstream of this API; those of a client of this API are passed unchanged."""
    verbatim = request.verbatim.get(API)
    if verbatim is not None:
        return verbatim
    options = write_options(request, API)
    if not isinstance(options.get("top_k"), int):
        options.pop("top_k", None)
    match request.extra.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            options["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return options
