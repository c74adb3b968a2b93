"""The markers that the machine knows: of turns, reasoning and quotations, markup left over after calls, start markers.

Rule: start markers are compiled once per choice of dialects and cached; if several dialects share a marker, the text
after it decides, and the primary dialect (the one the caller selected) is tried first. Leftover markup is dropped only
directly after a call: brackets only alone on the rest of their line, a fence and an ellipsis only at the end of the
reply. An echoed call is recognised by its context, never because it equals an earlier call.
"""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fcshim.errors import ConfigError
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, OTHER_DIALECTS
from fcshim.parse.machine.quotations import QUOTATION_STARTS
from fcshim.parse.machine.wrapper_tags import FIRST_CHARS
from fcshim.parse.markers import END_TOKENS, MarkerSet
from fcshim.parse.scanner import SPACE, MoreNeeded, Scanner, decided

ROLE_MARKERS = (
    # Turn markers of chat templates: a model that writes one continues by inventing further turns.
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<|turn>",
    "<|start|>",
    "[INST]",
    "<|user|>",
    "<|assistant|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<|system|>",
    "<|tool|>",
    "<|tool_response|>",
    "<|tool_result|>",
    "<|start_of_role|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|im_user|>",
    "<|im_system|>",
    "[|user|]",
    "[|system|]",
    "[|assistant|]",
    # Plain-text turn markers, as models trained on transcripts write them.
    "\nUser:",
    "\nHuman:",
    "\nAssistant:",
    *("\nUSER:", "\nHUMAN:", "\nASSISTANT:", "\n用户：", "\n用户:", "\n助手：", "\n助手:"),
    *(
        f"\n{role}"
        for name in ("User", "Human")
        for role in (f"**{name}:**", f"**{name}**:", f"## {name}", f"### {name}")
    ),
)

REASONING_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("to=self<|message|>", "<|eom|>"),
    ("<|start|>assistant to=self<|message|>", "<|eom|>"),
    ("<|message_model|><|content_thinking|>", "<|end_message|>"),
    ("<|content_thinking|>", "<|end_message|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|thought_start|>", "<|thought_end|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("analysis<|message|>", "<|end|>"),  # the prompt ended with `<|channel|>`
)

_MESSAGE_START = "<|start|>assistant "

CHAT_TURN_MARKERS = frozenset(marker for marker in ROLE_MARKERS if marker[0] != "\n")
"""Role markers that stand in no ordinary text: after a call they end the reply."""


def reasoning_end_tag(start_tag: str, own_tags: Iterable[tuple[str, str]] = ()) -> str:
    """Return the end tag of a reasoning block, with the tags of a dialect first.

    Raises `ConfigError`, which lists the known start tags.
    """
    for known_tag, end_tag in (*own_tags, *REASONING_TAGS):
        if known_tag.strip() == start_tag.strip():
            return end_tag
    known = ", ".join(known_tag.strip() for known_tag, _ in REASONING_TAGS)
    raise ConfigError(f"unknown reasoning tag {start_tag!r}: expected one of {known}")


FURTHER_TURNS = MarkerSet(
    (
        *CHAT_TURN_MARKERS,
        *(
            dialect.result.open
            for dialect in DIALECTS.values()
            if dialect.result.open.startswith(("<|", "<｜", "[TOOL"))
        ),
    )
)
"""Tokens that begin a further turn or a tool's result; after a call without tags they end the reply."""
END_MARKERS = (
    *("[/TOOL_CALLS]", "[/TOOL_REQUEST]", "[END_TOOL_REQUEST]", "</tools>", "</tool>", "</tool_use>", "</function>"),
    *(marker for dialect in DIALECTS.values() for marker in dialect.closers() if marker[0] != "`"),
    *(dialect.result.close for dialect in DIALECTS.values() if "_" in dialect.result.close),
    # `<|/tool_calls|>`, in a dialect whose calls have no end marker.
    *(
        f"<|/{marker[2:]}"
        for dialect in DIALECTS.values()
        for marker in (*dialect.openers(), *dialect.section.openers())
        if marker[:2] == "<|" and marker[-2:] == "|>"
    ),
)
_MARKERS = MarkerSet((*END_TOKENS, *END_MARKERS))
_BRACKETS_IN_LINE = re.compile(r"[}\])]{1,8}[ \t\r]{0,8}(?=\n)")
_END_OF_REPLY = re.compile(r"\s{0,4}(?:[}\])]{1,8}|`{1,8}|\.{1,3}|…)\s{0,8}")
_MAX_END_OF_REPLY = 24
"""More characters than these patterns match."""


def leftover_end(text: str, pos: int) -> int:
    """Return the end of the leftover markup at `pos`, or `pos` if there is none. Raises `MoreNeeded`."""
    marker = _MARKERS.read(text, pos)
    if marker or text[pos] not in "}])`.…":
        return pos + len(marker)
    found = _BRACKETS_IN_LINE.match(text, pos)
    if found is None and _END_OF_REPLY.fullmatch(text[pos : pos + _MAX_END_OF_REPLY]):
        raise MoreNeeded
    return found.end() if found else pos


def is_last_leftover(tail: str) -> bool:
    """Return whether the end of a reply, after a call, is leftover markup, with white space around it."""
    found = _MARKERS.match(tail, len(tail) - len(tail.lstrip()))
    if found is not None and not tail[found.end() :].strip():
        return True
    return tail.strip() not in {".", ".."} and _END_OF_REPLY.fullmatch(tail) is not None


_MAX_PIECES = 64
"""The most characters that could begin a marker, but do not, in one match of the fast path."""
_IN_LINE = r"(?:(?<=\S[\S\s])|(?<=\S[ \t][\S\s]))"
"""The position after a character that stands behind another one of its line, with at most one blank between them."""
_NO_CALL = r"(?=[^\w<&*\\\[{｛［`]|\[?+(?:\d|[^\W\d][\w.:-]{0,127}+[ \t]{0,4}+[^(\[])|\[[ \t]?\]|\*{1,3}+[^*<&\\\[])"
"""What follows the bullet of a list item whose text is not a call, see `OpeningFinder`."""
_LIST_ITEM_WITHOUT_CALL = (
    rf"[-*](?=[^ \t]|[ \t]{{1,4}}+{_NO_CALL})|\d(?=\d{{0,2}}+(?:[^\d.)]|\d|[.)](?:[^ \t]|[ \t]{{1,4}}+{_NO_CALL})))"
)
"""The beginning of a line that may be a list item or bold text, and holds no call."""
_NO_TAG = {"[": r"(?=\d)", "<": "(?=/)", "&": "(?=[^l]|l[^t])", "\\": r"(?=[^<\[])"}
"""What follows the first character of a line that begins neither a call nor a tag: `[1]`, `</p>`, `&amp;`."""
PARTIAL_LIST_ITEM = re.compile(
    r"(?:[-*]|\d{1,3}+(?:[.)]|\Z))"
    r"(?>(?:[ \t]{1,4}+(?>(?:\*{1,3}+|\[?+(?P<name>[^\W\d][\w.:-]{0,127}+)[ \t]{0,4}+|\[[ \t]?)?))?)\Z"
)
"""A list item at the end of a piece of text, as far as it may be the beginning of a call."""
_FULL_WIDTH_BRACKETS = str.maketrans("[{", "［｛")


@dataclass(frozen=True, slots=True)
class Opening:
    """One meaning of a start marker."""

    dialect: Dialect
    primary: bool
    section: bool = False
    """True if the marker opens a section of calls, not a call."""
    starts_body: bool = False
    """True if the marker is the first character of the body."""
    is_word: bool = False
    """True if the marker is a common word."""
    end_markers: tuple[str, ...] = ()
    """The end markers of a tag that no dialect has: its calls count only if one of them follows."""

    @property
    def must_be_last(self) -> bool:
        """True if the call counts only if nothing but calls follow it."""
        return (self.starts_body or self.is_word or self.dialect.call.at_line_start) and not self.primary

    def begins(self, marker: str, text: str, start: int) -> bool:
        """Return whether this opens at the marker at `start`. Raises `MoreNeeded`."""
        end = start + len(marker)
        if not self.section:
            body_start = start if self.starts_body else end_of_doubled(marker.lstrip("\n"), text, end)
            return decided(self.dialect.body.begins(text, body_start))
        scan = Scanner(text, end)
        scan.take()
        return bool(scan.skip(*self.dialect.openers()))


class StartMarkers:
    """The markers of one parser; `primary` is the dialect the caller selected, None for `auto`."""

    def __init__(
        self, primary: Dialect | None, others: tuple[Dialect, ...], *, allow_bare: bool, any_body: bool = False
    ) -> None:
        dialects = [
            *([primary] if primary else []),
            *(dialect for dialect in others if primary is None or dialect.name != primary.name),
        ]
        self._any_body = any_body
        self.openings: dict[str, list[Opening]] = {}
        for dialect in dialects:
            self._add(dialect, primary=dialect is primary, allow_bare=allow_bare)
        tagged = [
            dialect
            for dialect in reversed(dialects)
            if dialect.result.open and (dialect is primary or dialect.result.open[0] != "\n")
        ]
        self.result_tags = {
            tag: dialect.result.close for dialect in tagged for tag in (dialect.result.open, *dialect.result.opens)
        }
        self.result_markers = tuple(
            tag
            for dialect in tagged
            for tag in (dialect.result.open, *dialect.result.opens)
            if tag[0] != "\n" and (dialect is primary or not tag.strip("<>").isalpha())
        )
        """The start tags of results that stand in no ordinary text: `<results>` of another dialect may."""
        self.result_marker_set = MarkerSet(self.result_markers)
        self.markup = frozenset(
            token for row in dialects for token in row.turn.tokens if _is_dropped_markup(token, row, primary)
        )
        self.answer_headers = frozenset(primary.turn.answer_headers if primary else ())
        headers = (token.removeprefix(_MESSAGE_START) for token in self.markup if token.startswith(_MESSAGE_START))
        self.first_headers = tuple(sorted(headers, key=len, reverse=True))
        """Headers of the first message, whose start stands at the end of the prompt."""
        self.fence_openings = {
            line: o for line, opens in self.openings.items() if line[0] == "`" for o in opens if o.primary
        }
        self.line_start_markers = tuple(
            marker[1:] for marker in sorted(self.openings, key=len, reverse=True) if marker[0] == "\n"
        )
        """Markers that count only at the start of a line; in text each is searched with the newline before it."""
        self._longest_line_start_marker = max(map(len, self.line_start_markers), default=0)
        self.body_start_chars = "".join(sorted(marker for marker in self.openings if marker in "[{［｛"))
        """Characters that begin a body without a marker at the start of a line."""
        tag_chars = FIRST_CHARS if any_body else ""
        list_chars = "-*0123456789" if any_body else ""
        self.line_start_chars = frozenset((*self.body_start_chars, *tag_chars, *list_chars))
        """Characters that may open a call only at the start of a line."""
        inline = [marker for marker in self.openings if marker[0] != "`"]
        self.inline_markers = tuple(
            marker for marker in inline if marker not in self.body_start_chars and marker[0] != "\n"
        )
        """The start markers that count anywhere."""
        self.inline_marker_set = MarkerSet(self.inline_markers)
        everything = [*inline, *self.result_tags, *self.markup, *ROLE_MARKERS, *QUOTATION_STARTS]
        at_line_start = rf"|(?<!\S)[{list_chars}]" if list_chars else ""
        self.all_markers = MarkerSet(
            [*everything, *tag_chars], extra_pattern=f"`+|~+{at_line_start}", extra_chars=f"`~{list_chars}"
        )
        anywhere = [marker for marker in everything if marker not in self.line_start_chars]
        self.plain_text = _text_without_markers(anywhere, line_start_chars="".join(sorted(self.line_start_chars)))
        """Matches text without markers."""
        self.plain_text_in_line = _text_without_markers(anywhere, excluded="\n")
        """Matches text without newlines and without markers that count inside a line."""

    def _add(self, dialect: Dialect, *, primary: bool, allow_bare: bool) -> None:
        if dialect.bare and not allow_bare and not primary:
            return
        for start_marker in dialect.openers():
            same = self.openings.get(start_marker)
            if dialect.call.at_line_start and start_marker[0] != "`" and same and same[0].primary:
                continue  # the primary dialect's marker counts anywhere
            marker = "\n" + start_marker if dialect.call.at_line_start and start_marker[0] != "`" else start_marker
            self.openings.setdefault(marker, []).append(Opening(dialect, primary))
        if primary or allow_bare:
            for word in dialect.call.words:
                self.openings.setdefault(f"\n{word}", []).append(Opening(dialect, primary, is_word=True))
        for marker in dialect.section.openers():
            self.openings.setdefault(marker, []).append(Opening(dialect, primary, section=True))
        for char in dialect.call.starts + dialect.call.starts.translate(_FULL_WIDTH_BRACKETS):
            same = self.openings.setdefault(char, [])
            if all(opening.dialect.body != dialect.body for opening in same):  # else an earlier dialect reads it
                same.append(Opening(dialect, primary, starts_body=True))

    def read(self, text: str, pos: int) -> str:
        """Return the start marker or line-start character at `pos`, or an empty string. Raises `MoreNeeded`."""
        ahead = text[pos : pos + self._longest_line_start_marker]
        if any(other != ahead and other.startswith(ahead) for other in self.line_start_markers):
            raise MoreNeeded
        marker = self.line_start_marker_at(text, pos) or self.inline_marker_set.read(text, pos)
        return marker or (text[pos] if text[pos] in self.line_start_chars else "")

    def line_start_marker_at(self, text: str, pos: int) -> str:
        """Return the line-start marker at `pos`, or an empty string."""
        return next((marker for marker in self.line_start_markers if text.startswith(marker, pos)), "")

    def find_opening(self, marker: str, text: str, start: int) -> Opening | None:
        """Return what the marker at `start` opens, None for nothing. Raises `MoreNeeded`."""
        openings = self.openings[marker]
        any_body = self._any_body and is_whole_tag(marker)
        needs_body = openings[0].section or openings[0].is_word or openings[0].dialect.bare
        if len(openings) == 1 and not (any_body or needs_body):
            return openings[0]
        return next((opening for opening in openings if opening.begins(marker, text, start)), None)


def end_of_doubled(marker: str, text: str, pos: int) -> int:
    """Return the end of the start marker that follows itself at `pos`, because a doubled one counts once; else `pos`.

    Raises `MoreNeeded`.
    """
    scan = Scanner(text, pos)
    found = SPACE.match(text, pos)
    if not marker or found is None or pos == len(text):
        return pos
    scan.pos = found.end()
    return scan.pos if scan.skip(marker) else pos


def is_whole_tag(marker: str) -> bool:
    """Return whether a marker is a whole tag; a body of another syntax cannot follow half a tag or a word."""
    return len(marker) > 1 and marker[0] in "<[" and marker[-1] in ">]"


def _is_dropped_markup(token: str, dialect: Dialect, primary: Dialect | None) -> bool:
    """Return whether the parser drops a markup token of this dialect instead of emitting it as text."""
    if dialect is primary:
        return True
    if primary is None:
        return not token.strip("</>").isalpha()  # a plain word as a tag (`<response>`) may be text of the answer
    # Otherwise the role marker would end the search for calls, and the header of a message would stand in the answer.
    return token.startswith((*ROLE_MARKERS, "<|channel|>"))


def _text_without_markers(markers: Iterable[str], *, line_start_chars: str = "", excluded: str = "") -> re.Pattern[str]:
    """Return a pattern for text without the beginning of a marker or of code, and without the characters in `excluded`.

    A marker's first character is accepted if the next two characters show that no marker begins there. One of the
    `line_start_chars` must also stand behind other characters of its line, or begin a list item or bold text that is no
    call.
    """
    following: dict[str, set[str]] = {char: set() for char in "`~" + line_start_chars + excluded}
    for marker in markers:
        following.setdefault(marker[0], set()).add(marker[1:3])
    plain = f"[^{re.escape(''.join(following))}]++"
    begin_nothing = "".join(char for char in line_start_chars if not following[char])
    non_markers = [
        f"{re.escape(char)}{_none_of(following[char])}{_IN_LINE if char in line_start_chars else ''}"
        for char in following
        if char not in "`~" + excluded + begin_nothing
    ]
    # An alternative that begins with a character is dismissed at once; before a look-behind each one was tried.
    in_line = [f"[{re.escape(begin_nothing)}]{_IN_LINE}"] if begin_nothing else []
    lines = [
        re.escape(char) + _none_of(following[char]) + _NO_TAG[char] for char in _NO_TAG if char in line_start_chars
    ]
    if line_start_chars and not any(following.get(char) for char in "-*0123456789"):
        lines.append(_LIST_ITEM_WITHOUT_CALL)
    return re.compile(f"(?:{'|'.join([plain, *in_line, *non_markers, *lines])}){{0,{_MAX_PIECES}}}")


def _none_of(beginnings: set[str]) -> str:
    """Return a look-ahead that excludes what begins with one of these one or two characters, or may do so."""
    if not beginnings:
        return ""
    seconds: dict[str, set[str]] = {}
    for beginning in sorted(beginnings):
        seconds.setdefault(beginning[:1], set()).add(beginning[1:])
    if "" in seconds:
        return "(?!)"
    pairs = [
        f"{re.escape(second)}[^{re.escape(''.join(sorted(thirds)))}]"
        for second, thirds in seconds.items()
        if "" not in thirds
    ]
    return f"(?=[^{re.escape(''.join(seconds))}]{''.join(f'|{pair}' for pair in pairs)})"


@functools.lru_cache(maxsize=64)
def compile_start_markers(primary: Dialect | None, *, others: bool, allow_bare: bool) -> StartMarkers:
    """Compile the markers of a dialect, with `others` of all dialects; `allow_bare` admits calls without markers."""
    rows = tuple(OTHER_DIALECTS.values()) if others else ()
    return StartMarkers(primary, rows, allow_bare=allow_bare, any_body=others and allow_bare)
