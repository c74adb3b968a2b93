"""The `response_template` of a dialect, by which transformers' own parser reads its calls (`tokenizer.parse_response`).

Theory of operation. The dialect's templates write one call with known words, and what stands around the words becomes
the patterns: the name, the arguments as JSON, the JSON with the name in it. Parameters in tags follow from the tags.

Format: transformers 5.13 and later; Python calls need 5.24.
"""

import re
from collections.abc import Iterator, Sequence

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import get_dialect
from fcshim.parse.literals.gemma_body import GemmaCalls
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tags
from fcshim.prompt.render import render_calls

_NAME, _ARGUMENTS = "f_name", '{"kx": "v1"}'
_JSON_CALL = re.compile(
    rf'(?P<list>\[\s*)?\{{(?:"tool_call_id": "0", )?"(?P<name>\w+)": "{_NAME}", "(?P<arguments>\w+)": '
    rf"{re.escape(_ARGUMENTS)}\}}(?:\s*\])?"
)
_PYTHON_CALL = f'[{_NAME}(kx="v1")]'
_SPACE = r"\s"
_THINKING = ("<think>", "</think>")


def response_template(dialect: str | Dialect, *, start: str, end: Sequence[str]) -> dict[str, JSON]:
    """Return the template of a dialect, for `tokenizer.response_template`.

    `start` is the text with which the chat template begins the assistant's turn (`<|im_start|>assistant`), `end` are
    the texts that may end the turn (`<|im_end|>`). The message has `content`, `thinking` and `tool_calls`. Values of
    parameters in tags are strings unless the parser gets the tools.

    Raises `ConfigError` for an unknown dialect, without a start or an end, and where transformers has no form for the
    dialect's calls: those without a marker, and those in elements that are named after the tool or its parameters.
    """
    row = get_dialect(dialect)
    if not (start and end and all(end)) or isinstance(end, str):
        raise ConfigError(f"response_template: expected a start and a list of ends, got {start!r:.40} and {end!r:.40}")
    calls = next(filter(None, _forms(row, render_calls(row, [(_NAME, _ARGUMENTS)]), end)), None)
    if calls is None:
        raise ConfigError(f"response_template: transformers has no form for the calls of {row.name}")
    opening, closing = row.turn.reasoning[0] if row.turn.reasoning else _THINKING
    return {
        "version": 1,
        "start_anchor": start,
        "fields": {
            "thinking": {"open": opening, "close": closing},
            "tool_calls": calls,
            "content": {"close": list(end)},
        },
    }


def _forms(row: Dialect, written: str, end: Sequence[str]) -> Iterator[dict[str, JSON] | None]:
    bodies = row.body.bodies if isinstance(row.body, UnionBody) else (row.body,)
    tags = next((body.tags for body in bodies if isinstance(body, TaggedCalls)), None)
    if found := _JSON_CALL.search(written):  # JSON with the name in it: one object, or a list of them
        before, after = written[: found.start()], written[found.end() :]
        keys = (found["name"], found["arguments"])
        yield _around(row, before, after, end, content="json", each=keys if found["list"] else None, keys=keys)
    elif _ARGUMENTS in written:
        yield _header_form(row, written, end)
    elif _PYTHON_CALL in written:
        before, after = written.split(_PYTHON_CALL)
        yield _around(row, before, after, end, content="python-call-list", each=("name", "arguments"))
    elif isinstance(row.body, GemmaCalls):
        arguments = {"unquoted_keys": True, "string_delims": [[row.quote, row.quote]]}
        pattern = rf"{_before(row)}{re.escape(row.call.open)}\s*call:\s*(?P<name>[\w.-]+)\s*(?=\{{)"
        yield _named(pattern, {"close": row.call.close}, content="json", content_args=arguments)
    elif tags is not None and not tags.nested:
        yield _tagged_form(row, tags, written)


def _around(
    row: Dialect,
    before: str,
    after: str,
    end: Sequence[str],
    *,
    content: str,
    each: tuple[str, str] | None,
    keys: tuple[str, str] = ("name", "arguments"),
) -> dict[str, JSON] | None:
    """Return the field of a body between fixed texts; None without a start marker."""
    if not before.strip():
        return None
    name, arguments = (f"{{{key}}}" for key in each) if each else (f"{{content.{key}}}" for key in keys)
    opening = f"{_before(row)}{_spaced(before.strip())}"
    field = {"open_pattern": opening, **_closing(row, after, before.strip(), end), "content": content}
    function = {"name": name, "arguments": arguments}
    return {**field, "transform": _function(function), **({"transform_each": True} if each else {"repeats": True})}


def _header_form(row: Dialect, written: str, end: Sequence[str]) -> dict[str, JSON] | None:
    """Return the field of arguments in JSON after a header with the name."""
    head, after = written.removeprefix(row.section.open).split(_ARGUMENTS)
    before, between = head.split(_NAME)
    if not before.strip() or before.endswith('"'):  # the name is a key
        return None
    header = _spaced(between.strip()).replace(":0", r":\d+") if between.strip() else ""  # Kimi numbers the calls
    space = r"\s*" if header else r"\s+"
    pattern = rf"{_before(row, row.section.open)}{_spaced(before.strip())}\s*(?P<name>[^\s<>{{}}\[\]]+?){space}{header}"
    return _named(pattern, _closing(row, after, before.strip(), end), content="json")


def _tagged_form(row: Dialect, tags: Tags, written: str) -> dict[str, JSON]:
    """Return the field of parameters in tags."""
    own = tags.call.prefix if tags.call.head else row.call.open
    outer, _, _ = written.partition(own)
    _, _, outer_end = written.rpartition(tags.call_close)
    attributes = '"[^<>]*' if tags.call.attribute else ""
    name = rf"(?P<name>[^\s<>\"]+?){attributes}\s*{re.escape(tags.call.end)}"
    if not tags.call.end:
        name += rf"(?=\s*(?:{re.escape(tags.parameter.head)}|{re.escape(tags.call_close)}))"
    line = r"\n?" if tags.lines else ""
    key = rf'(?P<key>[^<>"]+?){chr(34) + "[^<>]*?" if tags.parameter.attribute else ""}{re.escape(tags.parameter.end)}'
    opening = rf"\s*{re.escape(tags.value_open)}" if tags.value_open else ""
    value = rf"{opening}{line}(?P<value>.*?){line}{re.escape(tags.parameter_close)}"
    return _named(
        rf"{_before(row, *outer.split())}{re.escape(own)}\s*{name}",
        {"close_pattern": rf"{re.escape(tags.call_close)}{_after(*outer_end.split())}"},
        content="xml-inline",
        content_args={"tag_pattern": f"{re.escape(tags.parameter.prefix)}{key}{value}"},
    )


def _named(open_pattern: str, closing: dict[str, JSON], **content: JSON) -> dict[str, JSON]:
    """Return the field of calls whose name is in the pattern that opens them."""
    transform = _function({"name": "{name}", "arguments": "{content}"})
    return {"open_pattern": open_pattern, **closing, **content, "repeats": True, "transform": transform}


def _function(function: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": "function", "function": function}


def _closing(row: Dialect, after: str, opening: str, end: Sequence[str]) -> dict[str, JSON]:
    """Return how a field ends: with the text after a call, or else where the next call begins or the turn ends."""
    close = after.strip().removesuffix(row.section.close).strip()
    if close:
        return {"close_pattern": f"{_spaced(close)}{_after(row.section.close)}"}
    return {"close_pattern": "|".join([f"(?={re.escape(opening)})", *map(re.escape, end)])}


def _spaced(text: str) -> str:
    """Return the pattern of a text whose white space may vary."""
    return r"\s*".join(map(re.escape, re.split(r"\s+", text)))


def _before(row: Dialect, *markers: str) -> str:
    """Return the pattern of what may stand before a call: white space, tokens of the turn, and these markers."""
    texts = sorted(filter(None, {*row.turn.tokens, *markers}), key=len, reverse=True)
    return f"(?:{'|'.join([_SPACE, *map(re.escape, texts)])})*"


def _after(*markers: str) -> str:
    """Return the pattern of markers that may follow a call, with the white space between them."""
    return "".join(rf"(?:\s*{re.escape(marker)})?" for marker in markers if marker)
