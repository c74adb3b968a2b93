"""The documents of a conversation, in which a call that the model shows may stand verbatim.

Rule: only what was copied counts. What may differ is what a copy changes: white space and invisible characters, the
escapes of JSON strings and HTML, and what a tool writes before each line (numbers, the signs of a diff).
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from fcshim.events import JSON

_FENCE_LINES = re.compile(r"\A\s*[`~]{3,}+[^\n]*\n|\n[ \t]*[`~]{3,}\s*\Z")
_BETWEEN_PYTHON_CALLS = re.compile(rb"(?<=\)),(?=[A-Za-z_][\w.]*\()")
_BETWEEN_VALUES = re.compile(r"[\s,;]*")
_UNICODE_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_MAX_UNICODE_ESCAPES = 20_000
"""Escapes that are decoded in one text, about 10 ms; with more of them the text is compared as it is."""
_NAMED_ESCAPES = {"&quot;": '"', "&apos;": "'", "&lt;": "<", "&gt;": ">", "&nbsp;": "", "&amp;": "&"}
_NUMBERED_ESCAPES = {form: sign for sign in "\"'{}[]():,<>/\xa0" for form in (f"&#{ord(sign)};", f"&#x{ord(sign):x};")}
"""Escapes of HTML for the signs of a call: they are replaced one by one, which takes little where there are none."""
_INVISIBLE = frozenset(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\x85\u2028\u2029"
    "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069"
    "\ufe0f\ufeff"
)
"""White space beyond ASCII, as pages have it between the tokens of a program, and characters that show nothing."""
_LINE_PREFIX = re.compile(
    r"""(?:^|(?<=\\n))[ \t]*+(?:
        \d{1,7}(?:\t|\\t|[ ]?[→:|│])                   # `cat -n`, editors
      | [^\s"'{}\[\]\\:-]{1,200}+([:-])\d{1,7}\1        # `grep -n`, `grep -C`
      | \+ | > | \| | \# | \* | //                     # a diff, a quotation, a comment
    )""",
    re.MULTILINE | re.VERBOSE,
)
_MAX_PREFIXED = 150_000
"""Characters of the newest texts of which prefixes are removed, some 20 ms."""
_MAX_NAMES = 64
"""Tools whose names are searched; with more of them the documents are taken to mention one."""
_MAX_CALLS = 200
"""Calls of one list that are searched, each in all documents."""
_NAME_ENDS = tuple(b"\"'({<>")
"""What may follow the name of a tool in a call, white space aside."""
_NAME_SIGNS = b"-_.:/"
_DELETED = b" \t\r\n\f\v\\"


class Documents:
    """Searches the tool results and documents of a conversation; nothing is read before the first search.

    `read_texts` returns them as the model sees them, `names` are the offered tools.
    """

    def __init__(self, read_texts: Callable[[], Iterable[str]], names: Iterable[str]) -> None:
        self._read_texts = read_texts
        self._names = tuple(names)

    @functools.cached_property
    def _text(self) -> bytes:
        # Nothing stands between the texts: a call may begin in one page of a file and end in the next.
        return b"".join(map(_normalize, self._read_texts()))

    @functools.cached_property
    def _text_without_prefixes(self) -> bytes:
        newest = "\n".join(self._read_texts())[-_MAX_PREFIXED:]
        return _normalize(_LINE_PREFIX.sub("", newest))

    @functools.cached_property
    def mention_a_tool(self) -> bool:
        """True if a document may hold a call: it has the name of a tool, in any spelling, as a call has it."""
        if not self._text:
            return False
        if len(self._names) > _MAX_NAMES:
            return True
        text = _fold(self._text)
        return any(name + bytes([end]) in text for name in self._folded_names for end in _NAME_ENDS)

    @functools.cached_property
    def _folded_names(self) -> list[bytes]:
        return list(filter(None, (_fold(_normalize(name)) for name in self._names)))

    def hold(self, call: str) -> bool:
        """Return whether the text of a call, or one of the calls in a list, stands in a document.

        A list that is too long to be compared counts as one of a document: no model makes so many calls at once.
        """
        if not self._text:
            return False
        calls = list(islice(_single_calls(call), _MAX_CALLS + 1))
        return len(calls) > _MAX_CALLS or any(
            each in self._text or each in self._text_without_prefixes
            for each in calls
            if any(name in _fold(each) for name in self._folded_names)
        )


def _single_calls(text: str) -> Iterator[bytes]:
    body = _FENCE_LINES.sub("", text)
    yield _normalize(body)
    # The tags around it were escaped in the document.
    yield _normalize(body[_first_bracket(body) :])
    yield _normalize(body[_first_bracket(body) : max(map(body.rfind, "}]")) + 1])
    values = list(_parse_values(body[_first_bracket(body) :]))
    if values:
        yield from (_normalize(json.dumps(call, ensure_ascii=False)) for call in values)
    else:
        yield from _BETWEEN_PYTHON_CALLS.split(_normalize(body).strip(b"[]"))


def _first_bracket(text: str) -> int:
    return min((at for at in map(text.find, "{[") if at >= 0), default=0)


def _parse_values(text: str) -> Iterator[JSON]:
    """Yield the values of a JSON array, or those that stand one after the other."""
    decoder, at = json.JSONDecoder(), 0
    try:
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            yield from value if isinstance(value, list) else [value]
            found = _BETWEEN_VALUES.match(text, end)
            at = found.end() if found else end
    except (ValueError, RecursionError):
        return


def _normalize(text: str) -> bytes:
    """Remove what models and nested JSON change when they copy: white space, and backslashes with n, r and t."""
    if 0 < text.count("\\u") + text.count("\\x") <= _MAX_UNICODE_ESCAPES:
        text = _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    for start, escapes in (("&#", _NUMBERED_ESCAPES), ("&", _NAMED_ESCAPES)):
        for escaped, sign in escapes.items() if start in text else ():
            text = text.replace(escaped, sign)
    for sign in () if text.isascii() else _INVISIBLE.intersection(text):
        text = text.replace(sign, "")
    raw = text.encode("utf-8", "surrogatepass")
    for escape in (b"\\n", b"\\r", b"\\t"):
        raw = raw.replace(escape, b"")
    return raw.translate(None, _DELETED)


def _fold(text: bytes) -> bytes:
    """Return the text as names of tools are compared: `functions.Read-File` is offered as `read_file`."""
    return text.lower().translate(None, _NAME_SIGNS)
