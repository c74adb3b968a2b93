"""Rewrite arguments that are written like the options of a command line as JSON: `{--path "a.py" --limit 20}`.

Rule: all or nothing. A value is JSON, or text without quotes up to the end of its line; where the end of one value is
not certain, the text stays as it is and cannot be read.
"""

import json
import re

_WORD = r"[\"']?\w{1,32}[\"']?\s{0,8}(?:=>|[:=])\s{0,8}"
_BEGINNING = re.compile(
    rf"\s{{0,64}}(?:{_WORD}[\"'][^\"'\\\n]{{1,128}}[\"']\s{{0,8}},\s{{0,64}}{_WORD}\{{\s{{0,64}})?(?=--?[A-Za-z_])"
)
"""What precedes the first option: nothing, or the name of the tool and the brace of its arguments."""
_OPTION = re.compile(r"--?([A-Za-z_][\w.-]{0,127})(?:\s*(?:=>|[:=])\s*|\s+)")
_AFTER_VALUE = re.compile(r"(?>\s*),?(?>\s*)(?=--?[A-Za-z_]|\})")
_LINE = re.compile(r"(?![\"'\[{<])[^\n{}]+(?=\n)")
"""Text without quotes around it, up to the end of its line."""
_OTHER_OPTION = re.compile(r"(?<!\S)--?\w|,\s*\Z")
_decoder = json.JSONDecoder(strict=False)


def rewrite_options(text: str) -> str:
    """Return the text with its options as members of a JSON object; unchanged where it has none, or is ambiguous."""
    found = _BEGINNING.match(text)
    if found is None:
        return text
    members: list[str] = []
    pos = found.end()
    while option := _OPTION.match(text, pos):
        value = _read_json(text, option.end()) or _read_line(text, option.end())
        if value is None:
            return text
        written, pos = value
        members.append(f"{json.dumps(option[1])}: {written}")
    complete = members and text[pos : pos + 1] == "}"
    return text[: found.end()] + ", ".join(members) + text[pos:] if complete else text


def _read_json(text: str, pos: int) -> tuple[str, int] | None:
    """Read a JSON value that another option or the closing brace follows: return it, and the position after it."""
    try:
        value, end = _decoder.raw_decode(text, pos)
    except (ValueError, RecursionError):
        return None
    after = _AFTER_VALUE.match(text, end)
    written = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else text[pos:end]
    return None if after is None else (written, after.end())


def _read_line(text: str, pos: int) -> tuple[str, int] | None:
    """Read text up to the end of its line; not where it may hold another option."""
    found = _LINE.match(text, pos)
    after = None if found is None else _AFTER_VALUE.match(text, found.end())
    if found is None or after is None or _OTHER_OPTION.search(found[0]):
        return None
    return json.dumps(found[0].rstrip(), ensure_ascii=False), after.end()
