"""Rewrite arguments that are written like the options of a command line as JSON: `{--path "a.py" --limit 20}`.

Rule: all or nothing. A value is JSON, or text without quotes around it up to the end of its line; where the end of one
value is not certain, the text stays as it is and cannot be read. An option that the tool does not have may be a part of
the value before it.
"""

import json
import re

from fcshim.parse.arguments.scopes import Members

_WORD = r"[\"']?(\w{1,32})[\"']?\s{0,8}(?:=>|[:=])\s{0,8}"
_BEGINNING = re.compile(
    rf"\s{{0,64}}(?:{_WORD}[\"']([^\"'\\\n]{{1,128}})[\"']\s{{0,8}},\s{{0,64}}{_WORD}\{{\s{{0,64}})?(?=--?[A-Za-z_])"
)
"""What precedes the first option: nothing, or the name of the tool and the brace of its arguments."""
_OPTION = re.compile(r"--?([A-Za-z_][\w.-]{0,127})(?:\s*=>\s*|[:=]\s*|\s+)(?![:=])")
_AFTER_VALUE = re.compile(r"(?>\s*)(?:,(?>\s*)|(?<=\s))(?=--?[A-Za-z_])|(?>\s*),?(?>\s*)(?=\})")
_STRING = re.compile(r"\"(?>[^\"\\]+|\\[\s\S])*\"|'[^'\"\\\n]*'")
_LINE = re.compile(r"(?![\"'\[{<])(?>(?:[^\n{}\"'\\]|\\[^\n\"']|\"(?:[^\"\\\n]|\\[^\"\n])*\"|'[^'\\\n]*')+)(?=\n)")
"""Text without quotes around it, up to the end of its line; those in it are closed in it."""
_MAY_GO_ON = re.compile(r"(?<!\S)--?\w|[,\\]\s*\Z")
_REST = re.compile(r"\}[\s}]*\Z")
_decoder = json.JSONDecoder()


def rewrite_options(text: str, members: Members) -> str:
    """Return the text with its options as members of a JSON object; unchanged where it has none, or is ambiguous.

    `members` is what may stand in the object in which the text begins.
    """
    found = _BEGINNING.match(text)
    if found is None:
        return text
    if found[1]:
        members = members.after(found[1], found[2]).member(found[3])
    written, pos = _read_options(text, found.end(), members)
    complete = written and _REST.match(text, pos) is not None
    return text[: found.end()] + ", ".join(written) + text[pos:] if complete else text


def _read_options(text: str, pos: int, members: Members) -> tuple[list[str], int]:
    """Read options up to the first that is not certain: return them as members, and the position after them."""
    written: list[str] = []
    is_quoted = False
    while option := _OPTION.match(text, pos):
        is_listed = members.lists_member(option[1])
        value = _read_json(text, option.end()) or _read_line(text, option.end(), is_quoted=is_quoted)
        if value is None or is_listed is False or (written and not is_listed):
            break
        is_quoted = is_quoted or text[option.end()] in "\"'"
        written.append(f"{json.dumps(option[1])}: {value[0]}")
        pos = value[1]
    return written, pos


def _read_json(text: str, pos: int) -> tuple[str, int] | None:
    """Read a JSON value that another option or the closing brace follows: return it, and the position after it."""
    string = _STRING.match(text, pos)
    try:
        end = string.end() if string else _decoder.raw_decode(text, pos)[1]
    except (ValueError, RecursionError):
        return None
    after = _AFTER_VALUE.match(text, end)
    return None if after is None else (text[pos:end], after.end())


def _read_line(text: str, pos: int, *, is_quoted: bool) -> tuple[str, int] | None:
    """Read text up to the end of its line; not where it may go on, or end a string if another value `is_quoted`."""
    found = _LINE.match(text, pos)
    after = None if found is None else _AFTER_VALUE.match(text, found.end())
    if found is None or after is None or _MAY_GO_ON.search(found[0]) or (is_quoted and '"' in found[0]):
        return None
    return json.dumps(found[0].rstrip(), ensure_ascii=False), after.end()
