"""Regular expressions of a `response_template`, matched in linear time: they come from untrusted files.

Theory of operation. An expression is parsed to a tree, and the tree compiled to instructions. The matcher tries them in
Python's order, with a stack, but no instruction twice at one position: the cost is at most instructions times
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
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

_MAX_INSTRUCTIONS = 2_000
_MAX_CLASSES = 100
"""Classes of one expression; real ones have five. A wide one takes 7 ms to compile, in which nothing else runs."""
_MAX_DEPTH = 20
_MAX_TEXTS = 64
"""Texts of one expression that are listed; one with more is not a list of texts."""
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?P<(?P<group>[A-Za-z_]\w{0,63})>|\?:|\?=|\?!)?|[*+?]\??"
    r"|\{(?P<least>\d{0,4})(?P<comma>,?)(?P<most>\d{0,4})\}\??|.",
    re.DOTALL,
)
_QUANTIFIERS: Mapping[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLASS_ESCAPES = frozenset("dDwWsS")
_CHARACTER_ESCAPES: Mapping[str, str] = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_SAMPLE_CHARACTERS = " \nabcdefgxyzABC0123_-.:,;'\"<>"
_NOT_SPACE = "aZ0_<>[]{}|:=\"'/.-"


class PatternError(Exception):
    """The expression is malformed, or uses something that is not supported; the message says what."""


@dataclass(frozen=True, slots=True)
class CharClass:
    r"""One character: `members` is a class (`[a-z]`, `\w`) or an escaped character, in Python's syntax."""

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
    tokens = list(_TOKEN.finditer(text))
    if "".join(token[0] for token in tokens) != text:
        raise PatternError("malformed")
    if sum(token[0].startswith("[") for token in tokens) > _MAX_CLASSES:
        raise PatternError(f"more than {_MAX_CLASSES} classes of characters")
    return _Parser(tokens).parse()


class _Parser:
    """A recursive descent parser over tokens."""

    def __init__(self, tokens: list[re.Match[str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def parse(self) -> PatternNode:
        node = self._choice(0)
        if self._at < len(self._tokens):
            raise PatternError("a bracket too many")
        return node

    def _next(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _choice(self, depth: int) -> PatternNode:
        if depth > _MAX_DEPTH:
            raise PatternError("groups nested too deeply")
        options = [self._series(depth)]
        while self._next() == "|":
            self._at += 1
            options.append(self._series(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _series(self, depth: int) -> PatternNode:
        parts: list[PatternNode] = []
        while self._next() not in {"", "|", ")"}:
            parts.append(self._repeated(self._atom(depth)))
        return PatternGroup(tuple(parts))

    def _atom(self, depth: int) -> PatternNode:
        token, self._at = self._tokens[self._at], self._at + 1
        if token[0].startswith("("):
            return self._group(token, depth)
        return _character(token[0])

    def _group(self, token: re.Match[str], depth: int) -> PatternNode:
        if token[0] == "(" and self._next().startswith("?"):
            raise PatternError("only groups, named groups and lookahead are supported after `(?`")
        inner = self._choice(depth + 1)
        if self._next() != ")":
            raise PatternError("a bracket is not closed")
        self._at += 1
        if token[0] in {"(?=", "(?!"}:
            return Ahead(inner, token[0] == "(?!")
        return PatternGroup((inner,), token["group"] or "")

    def _repeated(self, part: PatternNode) -> PatternNode:
        if self._at == len(self._tokens):
            return part
        token = self._tokens[self._at]
        if token[0][0] in "*+?":
            least, most = _QUANTIFIERS[token[0][0]]
        elif token["least"] or token["most"]:
            least = int(token["least"] or 0)
            most = least if not token["comma"] else int(token["most"]) if token["most"] else None
        else:
            return part
        if isinstance(part, Ahead | End) or (most is not None and most < least):
            raise PatternError(f"cannot repeat before {token[0]!r}")
        self._at += 1
        if self._next()[:1] in {"*", "+", "?"}:
            raise PatternError(f"two quantifiers, {token[0]}{self._next()}")
        return Repeated(part, least, most, lazy=token[0][-1] == "?" and len(token[0]) > 1)


def _character(token: str) -> PatternNode:
    """Return the node of a token that is neither a group nor a quantifier."""
    if token in {"$", r"\Z"}:
        return End()
    if token[0] == "[" and len(token) > 1:
        return CharClass(_checked_class(token))
    if token[0] == "\\":
        return _escaped(token)
    if token[0] in "*+?^[":
        raise PatternError(f"{token!r} is not supported here")
    return CharClass(".") if token == "." else CharClass(re.escape(token), token)  # noqa: S105 # a regular expression


def _escaped(token: str) -> PatternNode:
    """Return the node of an escape."""
    escaped = token[1:]
    if not escaped:
        raise PatternError("a backslash at the end")
    if escaped in _CLASS_ESCAPES:
        return CharClass(token)
    if escaped.isalnum() and escaped not in _CHARACTER_ESCAPES:
        raise PatternError(f"{token} is not supported")
    literal = _CHARACTER_ESCAPES.get(escaped, escaped)
    return CharClass(re.escape(literal), literal)


def _checked_class(token: str) -> str:
    try:
        re.compile(token)
    except re.error as error:
        raise PatternError(f"{token}: {error}") from error
    return token


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


def literal_runs(node: PatternNode) -> tuple[str, ...]:
    """Return the literal texts between the other parts of an expression."""
    joined = "".join(part.literal if isinstance(part, CharClass) and part.literal else "\0" for part in flat(node))
    return tuple(filter(None, joined.split("\0")))


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


def with_wider_group(parts: tuple[PatternNode, ...], group: str) -> tuple[PatternNode, ...]:
    r"""Let a group of `\w` also match the full stop and the hyphen, which names of tools may have."""
    return tuple(_widened(part) if isinstance(part, PatternGroup) and part.group == group else part for part in parts)


def _widened(node: PatternNode) -> PatternNode:
    match node:
        case PatternGroup(parts=parts, group=group):
            return PatternGroup(tuple(map(_widened, parts)), group)
        case Repeated(part=part):
            return replace(node, part=_widened(part))
        case CharClass(members=r"\w"):
            return CharClass(r"[\w.-]")
    return node


# Matching.

_Code: TypeAlias = tuple[Literal["char", "split", "jump", "group", "ahead", "not_ahead", "end", "match"], Any, int]
"""An instruction, its argument (a character's matcher, a group's name, a pattern), and how far it jumps.

`split` goes on at the jump that is its argument, and at the other one if that fails."""


class _Thread(NamedTuple):
    """One way through the instructions, at a position of the text."""

    at: int
    here: int
    saved: Saved | None


class Pattern:
    """A compiled expression."""

    def __init__(self, node: PatternNode) -> None:
        """Compile an expression. Raises `PatternError` if it is too large."""
        self.node = node
        self.hit_end = False
        """True if more text could change the last result."""
        self._code: list[_Code] = [*_compile(node), ("match", None, 0)]
        self.size = _size(self._code)

    # Matching.

    def match(self, text: str, pos: int = 0) -> PatternMatch | None:
        """Match at `pos`."""
        self.hit_end = False
        return self._run(text, pos, set())

    def find_all(self, text: str) -> Iterator[PatternMatch]:
        """Yield the matches that do not overlap."""
        pos, tried = 0, set[tuple[int, int]]()
        while pos <= len(text):
            found = self._run(text, pos, tried)
            if found is None:
                pos += 1
                continue
            yield found
            pos, tried = found.end + (found.end == found.start), set()

    def _run(self, text: str, pos: int, tried: set[tuple[int, int]]) -> PatternMatch | None:
        """Try the instructions from `pos` on; those in `tried` have failed before."""
        stack: list[_Thread] = [_Thread(0, pos, None)]
        while stack:
            thread = stack.pop()
            while (thread.at, thread.here) not in tried:
                if self._code[thread.at][0] == "match":
                    return PatternMatch(pos, thread.here, _group_texts(text, thread.saved))
                tried.add((thread.at, thread.here))
                following = self._step(text, thread, stack)
                if following is None:
                    break
                thread = following
        return None

    def _step(self, text: str, thread: "_Thread", stack: list["_Thread"]) -> "_Thread | None":
        """Execute one instruction: return where to go on, None if it fails."""
        (kind, argument, jump), here = self._code[thread.at], thread.here
        match kind:
            case "char":
                self.hit_end = self.hit_end or here == len(text)
                return _Thread(thread.at + 1, here + 1, thread.saved) if argument.match(text, here) else None
            case "split":
                stack.append(_Thread(thread.at + jump, here, thread.saved))
                return _Thread(thread.at + argument, here, thread.saved)
            case "jump":
                return _Thread(thread.at + jump, here, thread.saved)
            case "group":
                return _Thread(thread.at + 1, here, Saved(thread.saved, argument, here))
        return _Thread(thread.at + 1, here, thread.saved) if self._holds(kind, argument, text, here) else None

    def _holds(self, kind: str, argument: Any, text: str, here: int) -> bool:
        """Return whether a condition on the text at `here` holds."""
        if kind == "end":
            self.hit_end = True
            return here == len(text)
        found = argument.match(text, here)
        self.hit_end = self.hit_end or argument.hit_end
        return (found is None) == (kind == "not_ahead")


def _size(code: list[_Code]) -> int:
    """Return the number of instructions, with those of lookahead."""
    sizes: list[int] = [argument.size for kind, argument, _ in code if kind in {"ahead", "not_ahead"}]
    return len(code) + sum(sizes)


def _check_size(size: int) -> None:
    if size > _MAX_INSTRUCTIONS:
        raise PatternError("too large")


def _compile(node: PatternNode) -> list[_Code]:
    """Compile an expression. Raises `PatternError` if it is too large."""
    code: list[_Code] = []
    match node:
        case CharClass():
            code = [("char", node.matcher(), 0)]
        case PatternGroup(parts=parts, group=group):
            edge: list[_Code] = [("group", group, 0)] if group else []
            code += edge
            for part in parts:
                code += _compile(part)
                _check_size(len(code))
            code += edge
        case Choice(options=options):
            code = _compile(options[-1])
            for option in reversed(options[:-1]):
                each = _compile(option)
                code = [("split", 1, len(each) + 2), *each, ("jump", None, len(code) + 1), *code]
                _check_size(len(code))
        case Repeated():
            code = _compile_repeated(node)
        case Ahead(part=part, negative=negative):
            code = [("not_ahead" if negative else "ahead", Pattern(part), 0)]
        case End():
            code = [("end", None, 0)]
    _check_size(_size(code))
    return code


def _compile_repeated(node: Repeated) -> list[_Code]:
    each = _compile(node.part)
    _check_size(_size(each) * (node.most or node.least))
    optional: list[_Code] = []
    if node.most is None:
        optional = [_split(len(each) + 2, lazy=node.lazy), *each, ("jump", None, -len(each) - 1)]
    for _ in range(node.least, node.most or 0):
        optional = [_split(len(each) + len(optional) + 1, lazy=node.lazy), *each, *optional]
    return each * node.least + optional


def _split(after: int, *, lazy: bool) -> _Code:
    """Return the instruction before a part that may be left out, behind which `after` stands."""
    return ("split", after, 1) if lazy else ("split", 1, after)


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
    return max(literal_runs(node), key=len, default="")


@functools.lru_cache(maxsize=64)
def compile_pattern(node: PatternNode) -> Pattern:
    """Compile an expression, once."""
    return Pattern(node)
