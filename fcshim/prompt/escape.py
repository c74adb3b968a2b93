"""Escaping of markers and chat-template tokens in text that clients, tools and models wrote.

Rule: an underscore is inserted after the opening character (`<function_call>` becomes `<_function_call>`, and that
becomes `<__function_call>`), so that escaping is reversible: `unescape(escape(text)) == text` for every text.

Why it is reversible: between its opening character and its end, a marker contains no other opening character. So
markers never overlap, and an inserted underscore does not affect other markers. A text has its markers at the same
places before and after; afterwards each of them has at least one underscore.

Not escaped: a bracket at the start of a line, and code fences without a language or with JSON or Python. Some dialects
mark calls by nothing else, but they are common in all text; the parser accepts such calls only if nothing but calls
follows them.

The markers of all bundled dialects are escaped in every request, since the parser of any dialect may read the text. The
markers of a custom dialect are escaped only in its own requests.
"""

import functools
import re
from collections.abc import Callable, Iterator

from fcshim.events import JSON
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.prompt.plain_markers import PlainMarkers
from fcshim.prompt.stream_unescape import PendingTail, UnescapePass

# Tags that are markers by their name alone, whatever follows it. Case, hyphens, underscores, a namespace
# (`minimax:tool_call`) and invisible characters are ignored.
_TAGS = (
    # calls and results of all model families: another parser may read the reply after fcshim
    *("tool_call", "tool_calls", "function_call", "function_calls", "function", "invoke", "dots_function_call"),
    *("longcat_tool_call", "start_function_call", "end_function_call", "tool_response", "tool_result", "tool_results"),
    *("function_result", "function_results", "function_response", "start_function_response", "end_function_response"),
    *("start_function_declaration", "end_function_declaration", "tool_code", "tool_output", "tool_outputs"),
    # reasoning: a copied closing tag would end it early
    *("think", "thinking", "thought", "reasoning", "longcat_think"),
    # turns of Gemma and SmolVLM; `system_note` marks system messages after the first turn (`turns.as_system_note`)
    *("start_of_turn", "end_of_turn", "end_of_utterance", "system_note"),
)
# Tags that are tokens only with `>` directly after the name; otherwise they are too common (`<s`, `<sys/types.h>`).
_CLOSED_TAGS = (
    *("s", "bos", "eos", "pad", "unk", "mask", "sep", "cls", "sys", "escape", "eot", "eod"),
    *("media", "image", "audio", "video", "start_of_image", "end_of_image", "image_soft_token"),  # llama-server, Gemma
    "response",  # ERNIE
)
# Control tokens in square brackets, of the Mistral family.
_BRACKETS = (
    *("INST", "TOOL_CALLS", "ARGS", "CALL_ID", "AVAILABLE_TOOLS", "TOOL_RESULTS", "TOOL_CONTENT", "SYSTEM_PROMPT"),
    *("THINK", "IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO", "PREFIX", "MIDDLE", "SUFFIX", "MODEL_SETTINGS"),
)


def markers(dialect: Dialect) -> tuple[str, ...]:
    """Return the markers of a dialect that are tags or tokens; `plain_markers` handles the others."""
    own = (*dialect.call_markers(), *dialect.section_openers(), dialect.result_open, dialect.result_close)
    return tuple(marker for marker in own if marker[:1] in {"<", "＜", "["})


_MARKERS = sorted({marker for dialect in DIALECTS.values() for marker in markers(dialect)})
# Markers without a closing bracket (attributes may follow) match whatever comes after them; markers with a bar inside
# are not covered by the pattern of names.
_PIPED = [marker.lstrip("</") for marker in _MARKERS if re.match(r"</?\w+\|\w", marker)]
_UNFINISHED = "|".join([*(re.escape(m[1:]) for m in _MARKERS if m[-1] not in ">]"), *map(re.escape, _PIPED)]) or r"(?!)"

# Invisible characters, which a model or a lenient parser ignores.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e007f"
)
_GAP = rf"[\s{_INVISIBLE}]{{0,8}}+"  # bounded, so that a stream holds back a bounded tail
# The opening character may itself be escaped, as an HTML entity or in JSON (Go's encoder does so): a model decodes
# both.
_OPEN = r"(?P<open>(?P<square>\[)|[<＜]|&(?i:lt|\#0{0,4}60|\#x0{0,4}3c);|\\(?i:u003c|x3c))(?P<under>_*+)"
_END = r"(?:[>＞]|&(?i:gt|\#62|\#x3e);|\\(?i:u003e|x3e))"
_NAME = rf"[\w:\-{_INVISIBLE}]{{1,80}}+"
_BARRED = r"[^\s<＜\[\]&\\>＞|｜]{1,64}+"

_CANDIDATE = re.compile(
    rf"{_OPEN}{_GAP}(?:\\?/{_GAP})?"
    rf"(?:(?P<wide>｜|(?(square)(?!)|(?i:{_UNFINISHED})))|(?P<bar>\|){_GAP}{_BARRED}{_GAP}(?:[|｜]{_GAP})?{_END}"
    rf"|(?P<name>{_NAME})(?![\w:\-{_INVISIBLE}])(?:{_GAP}(?P<end>{_END}|\]))?)"
)


def _prefixes(*words: str) -> str:
    """Return a pattern of every nonempty proper prefix of the words."""
    return "|".join(sorted({re.escape(word[:size]) for word in words for size in range(1, len(word))}, reverse=True))


_OPEN_PREFIX = _prefixes("&lt;", "&#000060;", "&#60;", "&#x00003c;", "&#x3c;", "\\u003c", "\\x3c")
_END_PREFIX = _prefixes("&gt;", "&#62;", "&#x3e;", "\\u003e", "\\x3e")
_PIPED_PREFIX = _prefixes(*_PIPED)
_PENDING = re.compile(
    rf"(?:(?i:{_OPEN_PREFIX})|{_OPEN}(?:(?<=_){_GAP}(?:\\|(?:\\?/{_GAP})?"
    rf"(?:\|{_GAP}(?:{_BARRED}{_GAP}(?:[|｜]{_GAP})?(?i:{_END_PREFIX})?)?"
    rf"|(?P<name>{_NAME})(?P<after>{_GAP}(?i:{_END_PREFIX})?)|(?i:{_PIPED_PREFIX}))?))?)\Z"
)


def _name_key(name: str) -> str:
    """Normalise a marker's name for comparison."""
    return _IGNORED.sub("", name).rpartition(":")[2].casefold()


_IGNORED = re.compile(rf"[_\-{_INVISIBLE}]+")


_NAMES = [marker.strip("<[/]>") for marker in _MARKERS]
_OPEN_KEYS = frozenset(filter(None, map(_name_key, (*_TAGS, *_NAMES))))
_CLOSED_KEYS = frozenset(map(_name_key, _CLOSED_TAGS))
_BRACKET_KEYS = frozenset(filter(None, map(_name_key, (*_BRACKETS, *_NAMES))))


class MarkerEscaper:
    """Escapes the markers of the bundled dialects, and those of a custom dialect."""

    def __init__(self, custom: Dialect | None = None) -> None:
        own = () if custom is None else tuple(_escapable(custom))
        keys = frozenset(filter(None, (_name_key(marker.strip("<[/]>")) for marker in own if marker[0] in "<＜[")))
        self._open_keys = _OPEN_KEYS | keys
        self._bracket_keys = _BRACKET_KEYS | keys
        self._escape_tags = functools.partial(_CANDIDATE.sub, self._escape_match)
        self._restore_tags = functools.partial(_CANDIDATE.sub, self._unescape_match)
        self._plain_markers = PlainMarkers()
        added: list[str] = []
        for marker in sorted(own, key=len):  # one that contains another one must not be escaped twice
            if marker in self.escape(marker):
                added.append(marker)
                self._plain_markers = PlainMarkers(added)

    def escape(self, text: str) -> str:
        """Escape every marker and chat-template token in a text, in linear time."""
        return self._plain_markers.escape(self._escape_tags(text))

    def unescape(self, text: str) -> str:
        """Undo `escape`."""
        return self._unescape_tags(self._plain_markers.unescape(text), len(text))

    def unescape_passes(self) -> tuple[UnescapePass, UnescapePass]:
        """Return new passes that undo `escape` in a text that arrives in chunks, in this order."""
        plain_markers = UnescapePass(self._plain_markers.unescape, self._plain_markers.pending)
        return plain_markers, UnescapePass(self._unescape_tags, self._pending_tail)

    def _unescape_tags(self, text: str, end: int) -> str:
        return self._restore_tags(text[:end])

    def _escape_match(self, match: re.Match[str]) -> str:
        if not self._is_marker(match):
            return match[0]
        start = len(match["open"])
        return f"{match['open']}_{match[0][start:]}"

    def _unescape_match(self, match: re.Match[str]) -> str:
        if not match["under"] or not self._is_marker(match):
            return match[0]
        start = len(match["open"])
        return match["open"] + match[0][start + 1 :]

    def _is_marker(self, match: re.Match[str]) -> bool:
        if match["open"] == "[":
            return match["name"] is not None and match["end"] == "]" and _name_key(match["name"]) in self._bracket_keys
        if match["name"] is None:  # full-width bar, barred token, unfinished marker
            return True
        key = _name_key(match["name"])
        return key in self._open_keys or (key in _CLOSED_KEYS and match["end"] not in (None, "]"))

    def _pending_tail(self, text: str) -> PendingTail | None:
        """Return the tail that may still become an escaped marker."""
        pending = _PENDING.search(text)
        while pending is not None and not self._may_be_marker(pending):
            pending = _PENDING.search(text, pending.start() + 1)
        if pending is None:
            return None
        return PendingTail(pending.start(), len(pending["open"] or ""), len(pending["under"] or ""))

    def _may_be_marker(self, pending: re.Match[str]) -> bool:
        if not pending["after"]:
            return True
        keys = self._bracket_keys if pending["open"] == "[" else _CLOSED_KEYS
        return _name_key(pending["name"]) in keys


_OPENING_BRACKETS = frozenset("<＜[")


def own_markers(dialect: Dialect) -> tuple[str, ...]:
    """Return every marker of a dialect, with the tags inside its calls."""
    inner = dialect.body.tags.markers() if isinstance(dialect.body, TaggedCalls) else ()
    return tuple(dict.fromkeys(filter(None, (*_outer_markers(dialect), dialect.result_close, *inner))))


def _outer_markers(dialect: Dialect) -> tuple[str, ...]:
    return (*dialect.openers(), *dialect.closers(), *dialect.section_openers(), dialect.result_open)


def _escapable(dialect: Dialect) -> Iterator[str]:
    """Yield the markers of a custom dialect that are escaped, without white space around them.

    A code fence is not. Inside a call and at the end of a result only tags are: words there are common in all text.
    """
    outer = _outer_markers(dialect)
    for marker in own_markers(dialect):
        text = marker.strip()
        if text and text[0] != "`" and (marker in outer or not _OPENING_BRACKETS.isdisjoint(text)):
            yield text


BUNDLED = MarkerEscaper()
"""Escapes the markers of the bundled dialects only."""


@functools.lru_cache(maxsize=256)
def escaper_for(dialect: Dialect) -> MarkerEscaper:
    """Return the escaper of requests in a dialect."""
    return BUNDLED if dialect in DIALECTS.values() else MarkerEscaper(dialect)


def map_strings(value: JSON, change: Callable[[str], str]) -> JSON:
    """Apply `change` to every string in a JSON value, keys included. Raises `RecursionError` if it is too deep."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): map_strings(item, change) for key, item in value.items()}
    return value


class Escaper:
    """Escapes the texts of one request and records whether any of them changed."""

    def __init__(self, markers: MarkerEscaper) -> None:
        self.markers = markers
        self.changed = False

    def __call__(self, text: str) -> str:
        """Return the escaped text."""
        escaped = self.markers.escape(text)
        self.changed = self.changed or escaped != text
        return escaped


class StreamUnescaper:
    """Unescapes a text that arrives in chunks; only a tail that may still become an escaped marker is held back."""

    __slots__ = ("_plain_markers", "_tags")

    def __init__(self, markers: MarkerEscaper) -> None:
        self._plain_markers, self._tags = markers.unescape_passes()

    def feed(self, text: str) -> str:
        """Take the next chunk and return the text that cannot change any more."""
        return self._tags.feed(self._plain_markers.feed(text))

    def close(self) -> str:
        """End the text and return what was held back."""
        return self._tags.feed(self._plain_markers.close()) + self._tags.close()
