r"""Find the readings of a damaged text, cheapest first.

Theory of operation. A reading is a way through the text: a chain of steps, each from a state at a position to the next
one, most of them without an edit. The states are those of the notation:

    _value     a value must come                    _after, or _string
    _key       a key may come, or a bracket         _value; _after
    _string    inside a string, before its quotes   _after; _string (the quote is content)
    _after     after a value                        _key, _value; _after (a bracket closes); _done
    _done      after the last bracket               the end of the text

The heap has the steps that were not taken yet, by their cost. Each state adds every step that its text allows: the
valid ones, and those with an edit (`edits`). A reading has at most one uncertain edit, so most ways end after a few
steps. Two ways with the same tokens are one reading.

Rule: one reading or none. The cheapest is returned if it has no uncertain edit, and no other value is read for a cost
that is at most `MARGIN` higher. The number of steps is limited.
"""

import heapq
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from fcshim.parse.backslashes import has_doubtful_escape
from fcshim.parse.readings.edits import (
    DOUBLED_QUOTES,
    LONE_QUOTE,
    MARGIN,
    MAX_COST,
    MIXED_ESCAPES,
    NOT_ESCAPED,
    QUOTE_MISSING,
    SECOND_VALUE,
    SKIPPED_END,
    SWAPPED_QUOTE,
    UNCERTAIN_COST,
    WRONG_QUOTE,
    Edit,
)
from fcshim.parse.readings.steps import Frame, NoReadingError, OpenString, State, Step, Token, done, edits_of, tokens_of

_MAX_STEPS = 2_400
"""Steps of one search that do not go ahead in the text; 300 members without their last bracket take 1,800."""
_STEPS_IN_STRING = 3
"""What such a step in a string counts, and one to a quote that directly follows another one. A file of 12 KB with
quotes in most lines takes 335."""

_OPENS_QUOTATION = re.compile(r"(?:[^\w)\].?]|\\[nrt]|(?:\A|\W|\\[nrt])[rRbBfFuU]{1,2}|[^\x00-\u2e7f])\Z")
"""What precedes a quotation in text, or a literal in code; Chinese and Japanese have no blanks."""
_CLOSES_QUOTATION = re.compile(r"[^\w]|(?:if|else|and|or|in|for|is|not)\b|[^\x00-\u2e7f]|\Z")
BEFORE_LITERAL = " \t\n([{=,:;+<>&|\"'\\-"
"""What stands directly before an empty literal of code."""
_NO_END = re.compile(r"[\w:=<>;+*&|!?%$@^~\\-]")
"""What follows no value."""
_LONGEST_PREFIX = 3
_TRIPLE = 3
"""Quotes in a row are one sign of code, and do not end its quotations."""
_LONGEST_RUN = 6
_LONGEST_RUN_ALONE = 64
"""Quotes at the start of a string after which it holds nothing else."""
_INSIDE_QUOTE = {quote: re.compile(rf"(?>(?:[^{quote}\\]++|\\[^{quote}])*)") for quote in "\"'"}
_OTHER_QUOTE = {'"': {"'"}, "'": {'"'}}
_APOSTROPHE = re.compile(r"(?<=\w)(?<!\\[nrt])(?<!\b[rRbBfFuU])(?<!\b[rRbBfF]{2})'(?=\w)(?![rRbBfFuU]{1,2}[\"'])")
"""An apostrophe inside a word, not the quote of a literal after an escape, or after or before a prefix."""
OTHER_QUOTES = "\"'“”„«»＂″`´‘’"
_OTHER_END = re.compile(rf"[{OTHER_QUOTES}]|\ufffd{{1,3}}|&(?:quot|apos|#34|#39|#x27);")
_DOUBLED = re.compile(r'"(?:[^"\\]|\\[\s\S])*""')
_TRIPLE_START = re.compile(r'(?:"{2}|"{5})(?!")')
LITERAL_COMMA = re.compile(
    r"(?<!\\)\"(?<=[\s(\[{<>=:,;!&|+*/%'-]\")\s{0,16}+,\s{0,16}+\"(?=[.)\]}+,:;%*\[=!|&\\])|(?<!\\)\",\"(?=[\s<>?'-])"
)
"""A comma between quotes, and what precedes and follows such a literal in code."""
_NEXT_NAME = re.compile(r"\s{0,64},\s{0,64}[\"']?([\w$]{1,64})")
_LOST_END = re.compile(r"(?=\s*[,，}\]｝］)])")


class ReadingSearch(ABC):
    """Searches the readings of one text; a subclass has the states of a notation.

    A text that begins inside a string includes what was sent of it.
    """

    def __init__(self, text: str, call_markers: Sequence[str]) -> None:
        self.text = text
        self._call_markers = call_markers
        self._heap: list[tuple[int, int, int, Step]] = []
        self._seen: set[tuple[object, ...]] = set()
        self._limit = MAX_COST
        self._count = self._added = 0
        self._unclosed_cost = MAX_COST + 1
        """The least cost of a reading that ends inside a string."""
        self._content_part = range(0)
        """A part of the text that may be content to its end."""

    # The search.

    def find(self, first: Step, sent: int) -> Step:
        """Return the last step of the only reading; the text begins with what was `sent`. Raises `NoReadingError`."""
        # Most texts have a cheap reading; then the steps that cost more are not even added.
        best = self._find_within(first, MARGIN)
        if best is None:
            best = self._find_within(first, MAX_COST)
        elif best.cost:
            best = self._find_within(first, best.cost + MARGIN)
        if best is None or best.uncertain is not None:
            raise self._no_reading(best)
        if NOT_ESCAPED in best.styles and self._has_doubtful_backslash(best, first.string, sent):
            raise NoReadingError("a backslash is content or begins an escape, in a string that is not escaped")
        return best

    def _has_doubtful_backslash(self, last: Step, first: OpenString | None, sent: int) -> bool:
        """Return whether a string that is not escaped has a backslash with two readings."""
        for kind, start, end in tokens_of(last):
            quote = self.text[start - 1] if start else first.quote if first else '"'
            if kind != "string" or quote not in _INSIDE_QUOTE:
                continue
            at, _ = self._next_quote(OpenString(quote, start), start)
            if at < end and has_doubtful_escape(self.text[start:end], max(0, sent - start)):
                return True
        return False

    def _find_within(self, first: Step, limit: int) -> Step | None:
        """Return the last step of the cheapest reading, if it costs at most `limit`."""
        best: Step | None = None
        self._limit, self._heap = limit, [(0, 0, 0, first)]
        self._seen.clear()
        reached = -1
        while self._heap:
            step = heapq.heappop(self._heap)[-1]
            if step.cost > self._limit:
                break
            if self._is_known(step):
                continue
            if step.pos > reached:
                reached = step.pos
            else:
                self._count_steps(_STEPS_IN_STRING if step.string else 1)
            if step.state is not done:
                step.state(step)
            elif best is not None and step.digest != best.digest:
                raise self._no_reading(best, step)
            elif best is None or step.uncertain is None:
                best, self._limit = step, min(limit, step.cost + MARGIN)
        return best

    def _count_steps(self, number: int) -> None:
        """Count a step that is not free. Raises `NoReadingError`."""
        self._count += number
        if self._count > _MAX_STEPS:
            raise NoReadingError("too many readings")

    def _no_reading(self, *found: Step | None) -> NoReadingError:
        """Return the error for a text with no reading, with one that is uncertain, or with two."""
        readings = [step for step in found if step is not None]
        is_unclosed = self._unclosed_cost < min((step.cost for step in readings), default=MAX_COST + 1)
        messages = [edit.message for step in reversed(readings) for edit in edits_of(step)]
        reason = f": {', or '.join(messages[:2])}" if messages else ""
        return NoReadingError(f"no certain reading{reason}", unclosed=is_unclosed)

    def _is_known(self, step: Step) -> bool:
        """Return whether another reading came here with the same tokens, and without an uncertain edit of its own."""
        key = step.state.__name__, step.pos, step.digest, step.string
        if (key, None) in self._seen or (key, step.uncertain) in self._seen:
            return True
        self._seen.add((key, step.uncertain))
        return False

    def add(
        self,
        previous: Step,
        state: State,
        pos: int,
        frame: Frame | None,
        *edits: Edit,
        token: Token | None = None,
        string: OpenString | None = None,
    ) -> Step | None:
        """Add a step, and return it; None if it costs too much, or is the second one with an uncertain edit."""
        cost, uncertain, styles = previous.cost, previous.uncertain, previous.styles
        for edit in edits:
            if edit in styles:
                continue
            cost += edit.cost
            if edit.is_style:
                styles |= {edit}
            if not edit.is_certain:
                if uncertain is not None:
                    return None
                uncertain = edit
        if cost > self._limit:
            return None
        step = Step(state, pos, frame, string)
        step.cost, step.uncertain, step.styles = cost, uncertain, styles
        step.previous, step.edits, step.token = previous, edits, token
        if token is None:
            step.digest = previous.digest
        else:
            kind, start, end = token  # a word is a string without quotes
            step.digest = hash((previous.digest, "string" if kind == "word" else kind, start, end))
        heapq.heappush(self._heap, (cost, -pos, self._added, step))
        self._added += 1
        return step

    def may_err(self, step: Step) -> bool:
        """Return whether an uncertain edit is possible after a step."""
        return step.uncertain is None and step.cost + UNCERTAIN_COST <= self._limit

    # Strings.

    def open_string(self, step: Step, quote: str, start: int, *edits: Edit) -> None:
        """Add a string that begins with `quote` before `start`."""
        self.add(
            step,
            self._string,
            start,
            step.frame,
            *edits,
            string=OpenString(quote, start, lacks_quote=QUOTE_MISSING in edits),
        )

    def _string(self, step: Step) -> None:
        """Inside a string: it ends at the next quote, or that is content."""
        string = step.string
        assert string is not None
        if step.pos == string.start and string.quote == '"':
            self._begin_string(step)
        at, has_escape = self._next_quote(string, step.pos)
        end = len(self.text) if at < 0 else at
        if self.may_err(step) or (step.uncertain is not None and step.uncertain.is_style):
            self._add_damaged_ends(step, string, end)
        if at < 0:
            if step.uncertain is None:
                self._unclosed_cost = min(self._unclosed_cost, step.cost)
            return
        if at == step.pos:
            self._count_steps(_STEPS_IN_STRING)
        if has_escape and not string.has_escape:
            string = string._replace(has_escape=True)
        self._add_end(step, string, at, at + len(string.quote))
        is_expression = step.uncertain is SECOND_VALUE  # its strings are escaped
        if string.quote in _INSIDE_QUOTE and not is_expression and at < self.content_end(string.start):
            self._add_content(step, string, at)

    def _begin_string(self, step: Step) -> None:
        """At the start of a string: its quote may be one of three, or be written twice, or be content."""
        if _TRIPLE_START.match(self.text, step.pos):
            self.open_string(step, '"""', step.pos + 2)
        elif found := _DOUBLED.match(self.text, step.pos):
            token = ("string", step.pos + 1, found.end() - 2)
            self.add(step, self._after, found.end(), step.frame, DOUBLED_QUOTES, token=token)

    def _next_quote(self, string: OpenString, pos: int) -> tuple[int, bool]:
        """Return the position of the next quote that may end the string, or -1, and whether escaped ones precede it."""
        text, quote, has_escape = self.text, string.quote, False
        inside = _INSIDE_QUOTE.get(quote[0])
        if inside is None:
            return text.find(quote, pos), False
        while True:
            found = inside.match(text, pos)
            assert found is not None
            pos = found.end()
            if pos == len(text):
                return -1, has_escape
            if text[pos] == "\\":
                has_escape, pos = True, pos + 2
            elif text.startswith(quote, pos) and not (quote == "'" and _APOSTROPHE.match(text, pos)):
                return pos, has_escape
            else:
                pos += 1

    def content_end(self, start: int) -> int:
        """Return where a string that is not escaped ends at the latest: where text begins that is no content."""
        if start not in self._content_part:
            self._content_part = range(start, self.find_no_content(start) + 1)
        return self._content_part.stop - 1

    def find_no_content(self, start: int) -> int:
        """Return the position of the next marker of a call, or the end of the text."""
        found = (self.text.find(marker, start) for marker in self._call_markers)
        return min((at for at in found if at >= 0), default=len(self.text))

    def _add_end(self, step: Step, string: OpenString, at: int, end: int, *edits: Edit) -> None:
        """Add the end of the string at `at`; its quote ends at `end`."""
        if string.has_quotes and not self.text[string.start : min(at, string.start + _LONGEST_RUN_ALONE)].strip(
            string.quote + " "
        ):
            return  # nothing but quotes: empty strings, or signs for one
        if _NO_END.match(self.text, end) and step.uncertain is None and not self.may_err(step):
            return  # a value ends here only with another mistake
        if string.is_quoting:
            edits = (*edits, LONE_QUOTE)
        if string.has_quotes and string.has_escape:
            edits = (*edits, MIXED_ESCAPES)
        token = ("string", string.start, at)
        frame = step.frame
        if frame is not None and frame.members.holds_calls and isinstance(frame.slot, str):
            frame = frame.changed(
                slot=frame.slot, members=frame.members.after(frame.slot, self.text[string.start : at])
            )
        self.add(step, self._after, end, frame, *edits, token=token)

    def _add_content(self, step: Step, string: OpenString, at: int) -> None:
        """Add the steps on which the quote at `at` is content."""
        edits = [NOT_ESCAPED]
        if self.text[at - 1 : at] == "\\" and at > string.start:
            edits.append(MIXED_ESCAPES)
        before = self.text[max(string.start, at - _LONGEST_RUN) : at]
        run = len(before) - len(before.rstrip(string.quote))
        if run % _TRIPLE == 0 and self.text.startswith(string.quote * _TRIPLE, at):
            self._skip_quotes(step, string, at + _TRIPLE, edits, is_quoting=string.is_quoting)
        around = {self.text[at - 1 : at], self.text[at + 1 : at + 2]}
        if around == _OTHER_QUOTE.get(string.quote):  # a literal of one quote
            self._go_on(step, string, at + 1, edits, is_quoting=string.is_quoting)
            return
        is_closing = string.is_quoting and _CLOSES_QUOTATION.match(self.text, at + 1) is not None
        is_shaped = is_closing if string.is_quoting else self._opens_quotation(string.start, at)
        if not is_shaped or run == _TRIPLE - 1:
            edits.append(LONE_QUOTE)
        self._skip_quotes(step, string, at + 1, edits, is_quoting=string.is_quoting is not is_shaped)

    def _skip_quotes(
        self, step: Step, string: OpenString, end: int, edits: Sequence[Edit], *, is_quoting: bool
    ) -> None:
        """Add the step after quotes that are content; the last of them may end the string."""
        frame = step.frame
        if not string.is_quoting and frame is not None:
            # Whether the next member seems to begin at `end`, whatever stands behind its name.
            name = _NEXT_NAME.match(self.text, end) if frame.keyed else None
            is_next = name is not None and name[1] not in frame.keys and frame.members.lists_member(name[1]) is True
            if (is_next or self.follows(frame, end)) and not LITERAL_COMMA.match(self.text, end - 1):
                edits = (*edits, SKIPPED_END)
        self._go_on(step, string, end, edits, is_quoting=is_quoting)

    def _go_on(self, step: Step, string: OpenString, pos: int, edits: Sequence[Edit], *, is_quoting: bool) -> None:
        quote, start, _, _, has_escape, lacks_quote = string
        opened = OpenString(quote, start, is_quoting, True, has_escape, lacks_quote)  # noqa: FBT003  `_replace` is slow
        self.add(step, self._string, pos, step.frame, *edits, string=opened)

    def _opens_quotation(self, start: int, at: int) -> bool:
        before = self.text[max(start, at - _LONGEST_PREFIX) : at]
        quote = self.text[at]
        is_empty = self.text.startswith(2 * quote, at) and not self.text.startswith(_TRIPLE * quote, at)
        if is_empty and before and before[-1] not in BEFORE_LITERAL:
            return False
        return not before or _OPENS_QUOTATION.search(before) is not None

    def _add_damaged_ends(self, step: Step, string: OpenString, end: int) -> None:
        """Add the ends of the string before `end` whose quote is missing, swapped or another character."""
        text, frame = self.text, step.frame
        if frame is None:
            return  # a string outside of all brackets ends with its quote
        for found in _OTHER_END.finditer(text, step.pos, end):
            if self.follows(frame, found.end()):
                self._add_end(step, string, found.start(), found.end(), WRONG_QUOTE)
        for found in () if string.lacks_quote else _LOST_END.finditer(text, step.pos, end):
            after_triple = text.startswith(string.quote * _TRIPLE, max(0, found.start() - _TRIPLE))
            if not after_triple and self.follows(frame, found.start()):
                self._add_end(step, string, found.start(), found.start(), QUOTE_MISSING)
        if step.pos == string.start < end < len(text) and text[end - 1] in "}]),":
            self.add(step, self._swapped, end - 1, frame, SWAPPED_QUOTE, token=("string", string.start, end - 1))

    @abstractmethod
    def follows(self, frame: Frame, pos: int) -> bool:
        """Return whether what follows a string that ends before `pos` is what follows a value in these brackets."""

    # The states of the notation.

    @abstractmethod
    def _after(self, step: Step) -> None:
        """After a value."""

    @abstractmethod
    def _swapped(self, step: Step) -> None:
        """After a value, before a sign and the quote that belongs before it."""
