"""Markers and chat-template tokens in other people's words, made harmless, and back again.

Rule: one underscore goes in behind the opening character (`<function_call>` becomes `<_function_call>`, which becomes
`<__function_call>`), so that the map can be undone exactly: `restore(neutralise(text)) == text` for every text.
Neighbours: `history` neutralises all that enters the prompt, `restoration` restores what the model copies from it;
`words` has the markers that are no tags.

Why it can be undone: what follows an opening character up to the end of its marker holds no other opening character,
so markers never overlap and an underscore put in behind one opening character changes nothing about the others. A
text holds a marker at the same places before and after; afterwards each has at least one underscore.

Not touched: a bracket at the start of a line, and a fence that is plain, of JSON or of Python. They are all there is of
some formats, and stand in every other text; such calls count only where nothing but calls follows them.
"""

import re
from collections.abc import Callable

from fcshim.events import JSON
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.prompt.plain_markers import PLAIN_MARKERS
from fcshim.prompt.stream_unescape import PendingTail, UnescapePass

# Tags that mean something by their name alone, whatever follows it. Letter case, hyphens, underscores, a namespace
# (`minimax:tool_call`) and invisible characters make no difference.
_TAGS = (
    # calls and results as other model families write them; a reader for one of them may stand behind us
    *("tool_call", "tool_calls", "function_call", "function_calls", "function", "invoke", "dots_function_call"),
    *("longcat_tool_call", "start_function_call", "end_function_call", "tool_response", "tool_result", "tool_results"),
    *("function_result", "function_results", "function_response", "start_function_response", "end_function_response"),
    *("start_function_declaration", "end_function_declaration", "tool_code", "tool_output", "tool_outputs"),
    # reasoning: a closing tag that is copied would end it early
    *("think", "thinking", "thought", "reasoning", "longcat_think"),
    # turns of Gemma and SmolVLM; `system_note` is how `history` marks instructions that come late
    *("start_of_turn", "end_of_turn", "end_of_utterance", "system_note"),
)
# Tags that are tokens only when nothing but `>` follows; as other words they are too common (`<s`, `<sys/types.h>`).
_CLOSED_TAGS = (
    *("s", "bos", "eos", "pad", "unk", "mask", "sep", "cls", "sys", "escape", "eot", "eod"),
    *("media", "image", "audio", "video", "start_of_image", "end_of_image", "image_soft_token"),  # llama-server, Gemma
    "response",  # ERNIE
)
# Control tokens in square brackets, of Mistral's family.
_BRACKETS = (
    *("INST", "TOOL_CALLS", "ARGS", "CALL_ID", "AVAILABLE_TOOLS", "TOOL_RESULTS", "TOOL_CONTENT", "SYSTEM_PROMPT"),
    *("THINK", "IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO", "PREFIX", "MIDDLE", "SUFFIX", "MODEL_SETTINGS"),
)


def markers(dialect: Dialect) -> tuple[str, ...]:
    """Give every marker of a dialect that is a tag or a token; `words` has the others."""
    own = (*dialect.call_markers(), *dialect.section_openers(), dialect.result_open, dialect.result_close)
    return tuple(marker for marker in own if marker[:1] in {"<", "＜", "["})


_MARKERS = sorted({marker for dialect in DIALECTS.values() for marker in markers(dialect)})
# A marker without its end (attributes may follow) is one whatever letters follow; one with a bar inside is no name.
_PIPED = [marker.lstrip("</") for marker in _MARKERS if re.match(r"</?\w+\|\w", marker)]
_UNFINISHED = "|".join([*(re.escape(m[1:]) for m in _MARKERS if m[-1] not in ">]"), *map(re.escape, _PIPED)]) or r"(?!)"

# Characters that show nothing and that a model, or a lenient reader, passes over.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e007f"
)
_GAP = rf"[\s{_INVISIBLE}]{{0,8}}+"  # bounded, so that what a stream holds back is bounded
# An opening character also comes escaped: HTML entities, and JSON as Go writes it. A model decodes both on sight.
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
    """Give a pattern for every proper beginning of the words, to be matched at the end of a text."""
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
    """Give what counts of a marker's name."""
    return _IGNORED.sub("", name).rpartition(":")[2].casefold()


_IGNORED = re.compile(rf"[_\-{_INVISIBLE}]+")


_NAMES = [marker.strip("<[/]>") for marker in _MARKERS]
_OPEN_KEYS = set(map(_name_key, (*_TAGS, *_NAMES)))
_CLOSED_KEYS = frozenset(map(_name_key, _CLOSED_TAGS))
_BRACKET_KEYS = set(map(_name_key, (*_BRACKETS, *_NAMES)))


def register_markers(dialect: Dialect) -> None:
    """Take the markers of a dialect that is not in the table for markers, from now on."""
    keys = [_name_key(marker.strip("<[/]>")) for marker in markers(dialect) if marker[0] in "<＜["]
    _OPEN_KEYS.update(filter(None, keys))
    _BRACKET_KEYS.update(filter(None, keys))
    others = (*dialect.openers(), *dialect.closers(), *dialect.section_openers(), dialect.result_open)
    for marker in filter(None, (marker.strip() for marker in others)):
        if marker[0] != "`" and marker in escape(marker):
            PLAIN_MARKERS.add(marker)


def escape(text: str) -> str:
    """Give `text` with every marker and chat-template token made harmless. Linear time."""
    return PLAIN_MARKERS.escape(_CANDIDATE.sub(_escape_match, text))


def unescape(text: str) -> str:
    """Undo `neutralise`: give the text that it was given."""
    return _unescape_tags(PLAIN_MARKERS.unescape(text), None)


def _unescape_tags(text: str, end: int | None) -> str:
    return _CANDIDATE.sub(_unescape_match, text[:end])


def map_strings(value: JSON, change: Callable[[str], str]) -> JSON:
    """Give the JSON value with every string in it changed, keys included. Raises `RecursionError` if it is too deep."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): map_strings(item, change) for key, item in value.items()}
    return value


class Escaper:
    """Neutralises the texts of one request and remembers whether there was anything to neutralise."""

    def __init__(self) -> None:
        self.changed = False

    def __call__(self, text: str) -> str:
        """Give `neutralise(text)`."""
        safe = escape(text)
        self.changed = self.changed or safe != text
        return safe


class StreamUnescaper:
    """Restores a text that comes in pieces, holding back only what may still turn out to be a neutralised marker."""

    __slots__ = ("_plain_markers", "_tags")

    def __init__(self) -> None:
        self._plain_markers = UnescapePass(PLAIN_MARKERS.unescape, PLAIN_MARKERS.pending)
        self._tags = UnescapePass(_unescape_tags, _pending_tail)

    def feed(self, text: str) -> str:
        """Take the next piece; give what is certain."""
        return self._tags.feed(self._plain_markers.feed(text))

    def close(self) -> str:
        """The text has ended; give what was held back."""
        return self._tags.feed(self._plain_markers.close()) + self._tags.close()


def _escape_match(match: re.Match[str]) -> str:
    if not _is_marker(match):
        return match[0]
    start = len(match["open"])
    return f"{match['open']}_{match[0][start:]}"


def _unescape_match(match: re.Match[str]) -> str:
    if not match["under"] or not _is_marker(match):
        return match[0]
    start = len(match["open"])
    return match["open"] + match[0][start + 1 :]


def _is_marker(match: re.Match[str]) -> bool:
    if match["open"] == "[":
        return match["name"] is not None and match["end"] == "]" and _name_key(match["name"]) in _BRACKET_KEYS
    if match["name"] is None:  # full-width bar, barred token, unfinished marker
        return True
    key = _name_key(match["name"])
    return key in _OPEN_KEYS or (key in _CLOSED_KEYS and match["end"] not in (None, "]"))


def _pending_tail(text: str) -> PendingTail | None:
    """Find the tail that may still become a neutralised marker."""
    pending = _PENDING.search(text)
    while pending is not None and not _may_be_marker(pending):
        pending = _PENDING.search(text, pending.start() + 1)
    if pending is None:
        return None
    return PendingTail(pending.start(), len(pending["open"] or ""), len(pending["under"] or ""))


def _may_be_marker(pending: re.Match[str]) -> bool:
    if not pending["after"]:
        return True
    keys = _BRACKET_KEYS if pending["open"] == "[" else _CLOSED_KEYS
    return _name_key(pending["name"]) in keys
