"""Limits on the schemas of tools: what is larger or deeper is refused before anything reads it.

Rule: a refusal names the tool, the limit and what was found; nothing here recurses.
Neighbours: `messages.as_tools` checks what a program offers, `codecs.limits` what a client sends.
"""

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the tools of one parser, client or request.

    They are wider than a codec's, whose limits meet strangers: what a codec has let in is never refused later, not even
    when neutralised markers have made it longer.
    """

    tools: int = 512
    """Four times what OpenAI's own API allows; names and schemas of more fill any context."""
    schema_bytes: int = 512 * 1024
    """One schema as JSON: some 128,000 tokens of prompt."""
    schema_depth: int = 64
    """Levels of nesting in one schema: real ones stay under 15. Deep ones aim at recursive readers."""


DEFAULT_TOOL_LIMITS = ToolLimits()


def check_schema(schema: JSON, owner: str, limits: ToolLimits = DEFAULT_TOOL_LIMITS, *, param: str) -> None:
    """Refuse a schema beyond the limits, or one that is not JSON. Raises `RequestError`; `place` says whose it is."""
    too_deep = RequestError(
        f"{owner}: the schema is nested deeper than {limits.schema_depth} levels, the most that are allowed",
        param=param,
    )
    try:
        text = msgspec.json.encode(schema)
    except RecursionError:
        raise too_deep from None
    except (TypeError, ValueError) as error:
        raise RequestError(f"{owner}: expected a schema that is JSON, but {error}", param=param) from None
    if len(text) > limits.schema_bytes:
        raise RequestError(
            f"{owner}: the schema takes {len(text)} bytes as JSON, at most {limits.schema_bytes} are allowed",
            param=param,
        )
    # Counting brackets is a hundredth of the work, and enough for nearly every schema.
    if text.count(b"{") + text.count(b"[") > limits.schema_depth and exceeds_depth(schema, limits.schema_depth):
        raise too_deep


def exceeds_depth(value: JSON, max_depth: int) -> bool:
    """Tell whether `value` nests more than `depth` arrays and objects; never recurses."""
    level = [value]
    for _ in range(max_depth + 1):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return True


def _children(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
