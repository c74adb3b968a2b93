"""Find markers in text that arrives in pieces; the end markers of a body also inside JSON strings.

Rule: one compiled search over new text only; only a tail that is a proper prefix of a marker waits for the next piece.
Each set is compiled once and cached.
"""

import functools
import re
from collections.abc import Iterable, Sequence

from fcshim.parse.scanner import MoreNeeded

END_TOKENS = (
    *("</s>", "<eos>", "<end_of_turn>", "<turn|>", "<_end>"),
    *("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|eos|>"),
    *("<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<|role_end|>"),
    *("<|message_sep|>", "<|endofassistant|>", "<|end_of_sentence|>", "<|END_OF_TURN_TOKEN|>"),
    *("<｜end▁of▁sentence｜>", "<｜hy_eos｜>", "[EOS]", "[EOT]", "[|endofturn|]", "[e~["),
)
"""Tokens with which a model ends its turn; a server that does not know them passes them as text."""
_MAX_END_OF_TURN = 128
"""Characters at the end of a reply in which such tokens are searched."""
_NO_MATCH = r"(?!)"
_NAME_ATTRIBUTE = re.compile(r"""[ \t]name=(["'])(?P<name>[^"'<>]{1,128})\1""")


class MarkerSet:
    """Several markers, compiled into one search that finds the longest marker at a position."""

    def __init__(self, markers: Iterable[str], *, extra_pattern: str = "", extra_chars: str = "") -> None:
        """Compile the markers; `extra_pattern`, which begins with one of `extra_chars`, is tried after them."""
        ordered = sorted(set(markers))
        first_chars = {marker[0] for marker in ordered}
        pattern = _pattern_of_any(ordered) if ordered else _NO_MATCH
        if extra_pattern:  # without the look-ahead `re` tries each alternative at each character
            pattern = f"(?={_char_class(first_chars.union(extra_chars))})(?:{pattern}|{extra_pattern})"
        found = re.compile(pattern)
        self.search, self.match, self.search_all = found.search, found.match, found.finditer
        self._prefixes = frozenset(marker[:size] for marker in ordered for size in range(1, len(marker)))
        self.max_length = max(map(len, ordered), default=0)
        self._search_beginning = re.compile(_pattern_of_beginnings(ordered) or _NO_MATCH).search

    def is_partial(self, text: str, pos: int) -> bool:
        """Return whether `text[pos:]` is a proper prefix of a marker, so that more text is needed to decide."""
        return len(text) - pos < self.max_length and text[pos:] in self._prefixes

    def read(self, text: str, pos: int) -> str:
        """Return the marker at `pos`, or an empty string; raises `MoreNeeded` if the text ends within one."""
        if self.is_partial(text, pos):
            raise MoreNeeded
        found = self.match(text, pos)
        return found[0] if found else ""

    def partial_start(self, text: str, pos: int, end: int | None = None) -> int:
        """Return the start of the longest tail of `text[pos:]` that is a proper marker prefix, else `len(text)`.

        Only a tail that begins before `end` counts; else return `end`.
        """
        size = len(text)
        last = size if end is None else end
        start = max(pos, size - self.max_length + 1)
        while start < last and (found := self._search_beginning(text, start, last)) is not None:
            start = found.start()
            if text[start:] in self._prefixes:
                return start
            start += 1
        return last


def _pattern_of_any(markers: Sequence[str]) -> str:
    """Return a pattern for the longest of the sorted markers; what several begin with is read once."""
    groups: dict[str, list[str]] = {}
    for marker in markers:
        groups.setdefault(marker[0], []).append(marker)
    return "|".join(map(_pattern_of_group, groups.values()))


def _pattern_of_group(markers: Sequence[str]) -> str:
    start = markers[0][: common_length(markers[0], markers[-1])]
    rests = [marker[len(start) :] for marker in markers if marker != start]
    if not rests:
        return re.escape(start)
    return f"{re.escape(start)}(?:{_pattern_of_any(rests)}){'?' if len(rests) < len(markers) else ''}"


def _pattern_of_beginnings(markers: Sequence[str]) -> str:
    """Return a pattern for the first two characters of a marker, or the first one at the end of the text."""
    seconds: dict[str, set[str]] = {}
    for marker in markers:
        if len(marker) > 1:
            seconds.setdefault(marker[0], set()).update(marker[1:-1][:1])
    return "|".join(
        rf"{re.escape(first)}(?:{_char_class(chars)}|\Z)" if chars else rf"{re.escape(first)}\Z"
        for first, chars in seconds.items()
    )


def _char_class(chars: Iterable[str]) -> str:
    return f"[{re.escape(''.join(sorted(chars)))}]"


@functools.lru_cache(maxsize=1024)
def marker_set(markers: tuple[str, ...]) -> MarkerSet:
    """Compile a set of markers, once."""
    return MarkerSet(markers)


_END_OF_TURN = re.compile(rf"(?:\s*(?:{'|'.join(map(re.escape, END_TOKENS))}))+\s*\Z")


def named_tool(tag: str) -> str:
    """Return the tool's name in a start marker that is a tag, `<tool name="f">`, or an empty string."""
    found = _NAME_ATTRIBUTE.search(tag)
    return found["name"] if found else ""


def end_of_turn(text: str) -> int:
    """Return where the tokens begin with which a model ends its turn, or `len(text)` if the text ends with none."""
    found = _END_OF_TURN.search(text, max(0, len(text) - _MAX_END_OF_TURN))
    return found.start() if found else len(text)


MAX_RUNS = 4_096
"""Repetitions in one match; the caller continues with a further match. The limit bounds memory, because each repetition
of a group takes some. A possessive group takes none, but before Python 3.11.5 it matches the wrong length:
https://github.com/python/cpython/issues/106052."""


class EndMarkers(MarkerSet):
    r"""The end markers of one body; the set may be empty.

    `string_run` matches content of a JSON string up to the closing quote, a `\u` or invalid escape, a control
    character or an end marker. `plain_run` also stops at any character that can begin an end marker.
    """

    def __init__(self, markers: tuple[str, ...]) -> None:
        super().__init__(markers)
        self.markers = markers
        first_chars = self.first_chars = re.escape("".join(sorted({marker[0] for marker in markers})))
        plain = rf'[^"\\\x00-\x1f{first_chars}]++|\\["\\/bfnrt]'
        non_markers = [non_marker_char(char, markers) for char in sorted({marker[0] for marker in markers})]
        self.string_run = re.compile(f"(?:{'|'.join([plain, *non_markers])}){{0,{MAX_RUNS}}}")
        self.plain_run = re.compile(f"(?:{plain}){{0,{MAX_RUNS}}}")

    def marker_at(self, text: str, pos: int) -> str:
        """Return the marker at `pos`, or an empty string."""
        found = self.match(text, pos)
        return found[0] if found else ""

    def end_of_marker(self, text: str, pos: int) -> int | None:
        """Return the end of the marker at `pos`: `pos` if there is none, None if more text is needed to decide."""
        found = self.match(text, pos)
        if found is not None:
            return found.end()
        return None if self.is_partial(text, pos) else pos


def non_marker_char(first_char: str, markers: tuple[str, ...]) -> str:
    """Return a pattern for a character that could begin a marker but does not begin one here."""
    remainders = [re.escape(marker[1:]) for marker in markers if marker[0] == first_char]
    return f"{re.escape(first_char)}(?!{'|'.join(remainders)})"


@functools.lru_cache(maxsize=256)
def compile_end_markers(markers: tuple[str, ...]) -> EndMarkers:
    """Compile a set of end markers, once."""
    return EndMarkers(markers)


def common_length(text: str, marker: str) -> int:
    """Return the number of characters with which both begin."""
    return next((at for at, (one, other) in enumerate(zip(text, marker, strict=False)) if one != other), len(text))
