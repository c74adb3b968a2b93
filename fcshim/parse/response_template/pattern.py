"""Regular expressions of a `response_template`, matched in linear time: they come from untrusted files.

Theory of operation. Python's own parser makes a tree of an expression, and the tree is compiled to states. The matcher
tries them in Python's order, with a stack, but no state twice at one position: the cost is at most states times
characters, whatever the expression. Where it needs text beyond the end, more text could change the result.
The library `regex` backtracks, and is bounded by a clock only; its partial matches do not say that more text could
change a match (`a+` on `aa`). RE2 has no lookahead. Neither gives the tree, from which the shape of a call is derived.

Rule: literals, classes, groups, alternatives, repetitions, lookahead and `$` are supported; lookbehind,
backreferences, flags and word boundaries are not.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# Not documented, but unchanged for years; lark reads the width of its terminals with it.
from re import _parser
from typing import Any, NamedTuple, TypeAlias

_MAX_SIZE = 10_000
"""Characters of an expression: the time to read one grows with them; real ones have a hundred."""
_MAX_STATES = 2_000
_MAX_CLASSES = 100
"""Classes of one expression; real ones have five. A wide one takes 7 ms to compile, in which nothing else runs."""
_MAX_DEPTH = 25
_MAX_TEXTS = 64
"""Texts of one expression that are listed; one with more is not a list of texts."""
_SAMPLE_CHARACTERS = " \nabcdefgxyzABC0123_-.:,;'\"<>"
_NOT_SPACE = "aZ0_<>[]{}|:=\"'/.-"


class PatternError(Exception):
    """The expression is malformed, or uses something that is not supported; the message says what."""


@dataclass(frozen=True, slots=True)
class CharClass:
    r"""One character: `members` is a class (`[a-z]`), `.` or an escaped character, in Python's syntax."""

    members: str
    literal: str = ""
    """The character, where only one matches."""

    def matcher(self) -> "re.Pattern[str]":
        """Return what matches one character; of one character, every expression costs the same."""
        return re.compile(self.members, re.DOTALL)

    @property
    def is_space(self) -> bool:
        """True if only white space matches."""
        matches = self.matcher().match
        return not any(matches(char) for char in _NOT_SPACE) and any(matches(char) for char in " \n\t")


@dataclass(frozen=True, slots=True)
class PatternGroup:
    """Parts, one after the other, with or without a group around them; `group` is the name of the group, or empty."""

    parts: tuple["PatternNode", ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, the preferred one first."""

    options: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A part `least` to `most` times (None: any number), as often as possible unless `lazy`."""

    part: "PatternNode"
    least: int
    most: int | None
    lazy: bool

    @property
    def is_space(self) -> bool:
        r"""True for optional white space (`\s*`, `\n?`)."""
        return not self.least and isinstance(self.part, CharClass) and self.part.is_space


@dataclass(frozen=True, slots=True)
class Ahead:
    """Text that must follow (or, if `negative`, must not), and is not part of the match."""

    part: "PatternNode"
    negative: bool


@dataclass(frozen=True, slots=True)
class End:
    """The end of the text."""


PatternNode: TypeAlias = CharClass | PatternGroup | Choice | Repeated | Ahead | End


class Saved(NamedTuple):
    """Where a group starts or ends, after all places that were saved before."""

    before: "Saved | None"
    group: str
    position: int


class PatternMatch(NamedTuple):
    """A match; `groups` are the texts of the groups that took part."""

    start: int
    end: int
    groups: dict[str, str]


def parse_pattern(text: str) -> PatternNode:
    """Parse an expression. Raises `PatternError`."""
    if len(text) > _MAX_SIZE:
        raise PatternError(f"expected at most {_MAX_SIZE} characters")
    try:
        parsed = _parser.parse(text, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from error
    if parsed.state.flags != re.DOTALL | re.UNICODE:
        raise PatternError("flags are not supported")
    return _Converter({number: name for name, number in parsed.state.groupdict.items()}).series(parsed)


class _Converter:
    """Makes nodes of the tree of Python's parser."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._classes = 0

    def series(self, items: Any, depth: int = 0) -> PatternNode:
        if depth > _MAX_DEPTH:
            raise PatternError("groups nested too deeply")
        parts = tuple(self._node(operation.name, argument, depth + 1) for operation, argument in items)
        return parts[0] if len(parts) == 1 else PatternGroup(parts)

    def _node(self, operation: str, argument: Any, depth: int) -> PatternNode:
        found: PatternNode
        match operation, argument:
            case (("LITERAL" | "NOT_LITERAL" | "ANY" | "IN"), _):
                found = self._character(operation, argument)
            case "BRANCH", (_, options):
                found = Choice(tuple(self.series(option, depth) for option in options))
            case "SUBPATTERN", (number, 0, 0, items):
                found = PatternGroup((self.series(items, depth),), self._names.get(number, ""))
            case (("MAX_REPEAT" | "MIN_REPEAT"), (least, most, items)):
                most = None if most == _parser.MAXREPEAT else most
                found = Repeated(self.series(items, depth), least, most, lazy=operation == "MIN_REPEAT")
            case (("ASSERT" | "ASSERT_NOT"), (1, items)):
                found = Ahead(self.series(items, depth), operation == "ASSERT_NOT")
            case "AT", place if place.name in {"AT_END", "AT_END_STRING"}:
                found = End()
            case _:
                raise PatternError("only groups, named groups and lookahead are supported, no anchor but the end")
        return found

    def _character(self, operation: str, argument: Any) -> CharClass:
        match operation:
            case "LITERAL":
                return CharClass(re.escape(chr(argument)), chr(argument))
            case "NOT_LITERAL":
                return CharClass(f"[^{re.escape(chr(argument))}]")
            case "ANY":
                return CharClass(".")
        self._classes += 1
        if self._classes > _MAX_CLASSES:
            raise PatternError(f"more than {_MAX_CLASSES} classes of characters")
        return CharClass(f"[{''.join(map(_class_member, argument))}]")


def _class_member(member: Any) -> str:
    """Return a member of a class in Python's syntax."""
    match member[0].name, member[1]:
        case "NEGATE", _:
            return "^"
        case "RANGE", (first, last):
            return f"{re.escape(chr(first))}-{re.escape(chr(last))}"
        case "CATEGORY", category:  # CATEGORY_DIGIT is `\d`, CATEGORY_NOT_DIGIT `\D`
            word = category.name.removeprefix("CATEGORY_")
            return f"\\{word[4] if word.startswith('NOT_') else word[0].lower()}"
    return re.escape(chr(member[1]))


def widen_group(text: str, group: str) -> str:
    r"""Let the group of `\w` with this name also match the full stop and the hyphen, which names of tools may have."""
    return text.replace(rf"(?P<{group}>\w+)", rf"(?P<{group}>[\w.-]+)")


# What an expression looks like.


def flat(node: PatternNode) -> tuple[PatternNode, ...]:
    """Return the parts of an expression in sequence, without groups that have no name."""
    if isinstance(node, PatternGroup) and not node.group:
        return tuple(itertools.chain.from_iterable(map(flat, node.parts)))
    return (node,)


def split_literal(parts: tuple[PatternNode, ...]) -> tuple[str, tuple[PatternNode, ...]]:
    """Split the literal text at the start of `parts` off."""
    count = next(
        (at for at, part in enumerate(parts) if not (isinstance(part, CharClass) and part.literal)), len(parts)
    )
    return "".join(part.literal for part in parts[:count] if isinstance(part, CharClass)), parts[count:]


def without_outer_space(parts: tuple[PatternNode, ...]) -> tuple[PatternNode, ...]:
    """Take optional white space off both ends."""
    while parts and isinstance(parts[0], Repeated) and parts[0].is_space:
        parts = parts[1:]
    while parts and isinstance(parts[-1], Repeated) and parts[-1].is_space:
        parts = parts[:-1]
    return parts


class _UnlistedError(Exception):
    """The texts of an expression cannot be listed: there are too many, or any number."""


def listed_texts(node: PatternNode) -> tuple[str, ...] | None:
    """Return the texts that match, without optional white space around them; None if they cannot be listed.

    White space inside is listed as none, a line break and a blank. The end of the text is empty.
    """
    options = node.options if isinstance(node, Choice) else (node,)
    try:
        found = [text for each in options for text in _texts(PatternGroup(without_outer_space(flat(each))))]
    except _UnlistedError:
        return None
    return tuple(dict.fromkeys(filter(None, found)))


def _texts(node: PatternNode) -> list[str]:
    """Return the texts of a node. Raises `_UnlistedError`."""
    found = [""]
    match node:
        case End():
            pass
        case CharClass(literal=literal) if literal:
            found = [literal]
        case Ahead(part=part, negative=False):
            found = _texts(part)
        case Choice(options=options):
            found = [text for option in options for text in _texts(option)]
        case PatternGroup(parts=parts):
            for part in parts:
                found = [head + tail for head in found for tail in _texts(part)]
                if len(found) > _MAX_TEXTS:
                    raise _UnlistedError
        case Repeated(part=CharClass(is_space=True), least=0 | 1 as least, most=None):
            found = ["\n", " "] if least else ["", "\n", " "]
        case Repeated(part=part, least=0, most=1):
            found = ["", *_texts(part)]
        case _:
            raise _UnlistedError
    return found


def sample_text(node: PatternNode, groups: Mapping[str, str]) -> str:
    """Return a short text that matches, with the given texts of groups."""
    match node:
        case CharClass(literal=literal):
            return literal or next((char for char in _SAMPLE_CHARACTERS if node.matcher().match(char)), "")
        case PatternGroup(parts=parts, group=group):
            return groups[group] if group and group in groups else "".join(sample_text(part, groups) for part in parts)
        case Choice(options=options):
            return sample_text(options[0], groups)
        case Repeated(part=part, least=least):
            # What is optional is left out, unless a group in it must be written.
            return sample_text(part, groups) * (least or any(name in groups for name in group_names(part)))
    return ""


def group_names(node: PatternNode) -> Iterator[str]:
    """Yield the names of the groups in an expression."""
    match node:
        case PatternGroup(parts=parts, group=group):
            if group:
                yield group
            for part in parts:
                yield from group_names(part)
        case Choice(options=options):
            for option in options:
                yield from group_names(option)
        case Repeated(part=part) | Ahead(part=part):
            yield from group_names(part)


# Matching.


class _Look(NamedTuple):
    """Lookahead: whether what begins at a state must match, or must not."""

    start: "_State"
    negative: bool


@dataclass(eq=False, slots=True)
class _State:
    """What is matched at a place of an expression, and the states after it, the preferred one first.

    `step` is a character, the edge of a group, lookahead or the end; None where only the states after it count.
    """

    step: "_Step" = None
    following: list["_State"] = field(default_factory=list)


_Step: TypeAlias = re.Pattern[str] | str | _Look | End | None


class Pattern:
    """A compiled expression."""

    def __init__(self, node: PatternNode) -> None:
        """Compile an expression. Raises `PatternError` if it is too large."""
        self.hit_end = False
        """True if more text could change the last result."""
        self._size = 0
        self._accept = _State()
        self._start = self._compile(node, self._accept)

    def _compile(self, node: PatternNode, after: _State) -> _State:
        """Return the state at which an expression begins, from the one after it."""
        self._size += 1
        if self._size > _MAX_STATES:
            raise PatternError("too large")
        match node:
            case CharClass():
                return _State(node.matcher(), [after])
            case PatternGroup(parts=parts, group=group):
                state = _State(group, [after]) if group else after
                for part in reversed(parts):
                    state = self._compile(part, state)
                return _State(group, [state]) if group else state
            case Choice(options=options):
                return _State(None, [self._compile(option, after) for option in options])
            case Repeated():
                return self._compile_repeated(node, after)
            case Ahead(part=part, negative=negative):
                return _State(_Look(self._compile(part, self._accept), negative), [after])
            case End():
                return _State(node, [after])

    def _compile_repeated(self, node: Repeated, after: _State) -> _State:
        state = after
        for _ in range(1 if node.most is None else node.most - node.least):
            choice = _State()
            again = choice if node.most is None else state
            choice.following = [self._compile(node.part, again), after][:: -1 if node.lazy else 1]
            state = choice
        for _ in range(node.least):
            state = self._compile(node.part, state)
        return state

    def match(self, text: str, pos: int = 0) -> PatternMatch | None:
        """Match at `pos`."""
        self.hit_end = False
        return self._run(self._start, text, pos)

    def _run(self, start: _State, text: str, pos: int) -> PatternMatch | None:
        """Try the states from `start` on."""
        tried: set[tuple[_State, int]] = set()
        stack: list[tuple[_State, int, Saved | None]] = [(start, pos, None)]
        while stack:
            state, here, saved = stack.pop()
            if state is self._accept:
                return PatternMatch(pos, here, _group_texts(text, saved))
            if (state, here) in tried:
                continue
            tried.add((state, here))
            reached = self._step(state.step, text, here, saved)
            if reached is not None:
                stack.extend((each, *reached) for each in reversed(state.following))
        return None

    def _step(self, step: _Step, text: str, here: int, saved: Saved | None) -> tuple[int, Saved | None] | None:
        """Return the position after a step, and the edges of groups up to there; None if it fails."""
        match step:
            case str(group):
                return here, Saved(saved, group, here)
            case _Look(start, negative):
                return (here, saved) if (self._run(start, text, here) is None) == negative else None
            case End():
                self.hit_end = True
                return (here, saved) if here == len(text) else None
            case re.Pattern() as char:
                self.hit_end = self.hit_end or here == len(text)
                return (here + 1, saved) if char.match(text, here) is not None else None
        return here, saved


def _group_texts(text: str, saved: Saved | None) -> dict[str, str]:
    """Return the texts of the groups, of each the last one."""
    found: dict[str, str] = {}
    ends: dict[str, int] = {}
    while saved is not None:
        saved, group, position = saved
        if group not in found and group in ends:
            found[group] = text[position : ends[group]]
        ends.setdefault(group, position)
    return found


@functools.lru_cache(maxsize=64)
def longest_literal(node: PatternNode) -> str:
    """Return the longest literal text that every match has."""
    joined = "".join(part.literal if isinstance(part, CharClass) and part.literal else "\0" for part in flat(node))
    return max(joined.split("\0"), key=len)


@functools.lru_cache(maxsize=64)
def compile_pattern(node: PatternNode) -> Pattern:
    """Compile an expression, once."""
    return Pattern(node)
