"""Rewrite a dict or list in Python's notation as JSON: `{'a': True}`.

Rule: only spellings with one meaning are rewritten; any other text gives None. Nothing is evaluated.
"""

import json
import re

_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:(?P<mark>[{}\[\]:])|(?P<comma>,)(?P<trailing>(?=[ \t\r\n]*[}\]]))?"""
    r"""|(?P<word>True|False|None|true|false|null)\b|(?P<number>-?[0-9][0-9.eE+-]*+)"""
    r"""|(?P<quote>["'])(?P<content>(?:(?!(?P=quote))[^\\\n]|\\["'\\/bfnrt]|\\u[0-9a-fA-F]{4})*)(?P=quote))"""
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPE_OR_QUOTE = re.compile(r"\\(.)|[\"\x00-\x1f]")


def python_to_json(text: str) -> str | None:
    """Return the JSON of a Python literal, whose grammar the caller checks; None for any other text."""
    parts: list[str] = []
    pos, end = 0, len(text.rstrip())
    while pos < end:
        found = _TOKEN.match(text, pos, end)
        if found is None:
            return None
        parts.append(_write(found))
        pos = found.end()
    return "".join(parts)


def _write(found: re.Match[str]) -> str:
    if found["quote"]:
        return f'"{_ESCAPE_OR_QUOTE.sub(_spell, found["content"])}"'
    if found["comma"]:
        return "" if found["trailing"] is not None else ","
    return _WORDS.get(found["word"], found["word"]) if found["word"] else found["mark"] or found["number"]


def _spell(found: re.Match[str]) -> str:
    if found[1] is not None:
        return "'" if found[1] == "'" else found[0]
    return json.dumps(found[0])[1:-1]
