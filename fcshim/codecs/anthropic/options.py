"""The settings that the vocabulary does not name, in both directions.

Rule: what other engines know too goes to `extra` under the Chat API's name; the client's own fields are kept beside it
for an upstream of this API.
Neighbours: `request` reads them, `outgoing` writes them.
"""

from fcshim.events import JSON
from fcshim.messages import Request

API = "anthropic"

_KNOWN_FIELDS = frozenset(
    [
        *("model", "messages", "system", "stream", "stop_sequences", "max_tokens", "temperature", "top_p"),
        *("tools", "tool_choice", "thread"),
    ]
)


def read_extra(source: dict[str, JSON]) -> dict[str, JSON]:
    """Give the fields that local engines understand."""
    extra: dict[str, JSON] = {}
    if isinstance(source.get("top_k"), int):
        extra["top_k"] = source["top_k"]
    config = source.get("output_config")
    match config.get("format") if isinstance(config, dict) else source.get("output_format"):
        case {"type": "json_schema", "schema": dict(schema)}:
            form = {"name": "reply", "schema": schema, "strict": True}
            extra["response_format"] = {"type": "json_schema", "json_schema": form}
    return extra


def read_verbatim(source: dict[str, JSON]) -> dict[str, dict[str, JSON]]:
    """Give the fields that only this API has."""
    return {API: {name: value for name, value in source.items() if name not in _KNOWN_FIELDS}}


def write_options(request: Request) -> dict[str, JSON]:
    """Give the fields for an upstream of this API; a client of this API had its own, which are kept."""
    own = request.verbatim.get(API)
    if own is not None:
        return own
    options: dict[str, JSON] = {}
    if isinstance(request.extra.get("top_k"), int):
        options["top_k"] = request.extra["top_k"]
    match request.extra.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            options["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return options
