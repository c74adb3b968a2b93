"""Repair lenient JSON: Lark parses the remainder of a body, and its tokens are rewritten as strict JSON.

Rule: every leniency is defined in the grammar; this module only rewrites tokens, so that the result continues the text
that was already sent.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lark import Lark, Token, Tree
from lark.exceptions import LarkError, UnexpectedCharacters, UnexpectedToken

from fcshim.errors import ConfigError
from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.entities import unescape_entities
from fcshim.parse.arguments.literal_words import is_damaged_word
from fcshim.parse.arguments.missing_brackets import ends_with_closer
from fcshim.parse.arguments.option_members import rewrite_options
from fcshim.parse.arguments.quote_escaping import QuoteEscaper, after_last_quote
from fcshim.parse.arguments.quoted_content import AmbiguousQuotesError
from fcshim.parse.arguments.scopes import ANYTHING, Members, Scope
from fcshim.resources import resource_dir

CommitPoint = Literal["start", "opened", "after", "string"]
"""The strict reader's last commit point: before the body, in a container just opened, after a value, in a string."""

_END_SENTINEL = "\x00"
"""Appended to the text for each closing bracket that may be missing; the grammar's terminal END."""
_MAX_MISSING_BRACKETS = 65
_CONTROLS = re.compile(r"[\x00-\x1f]")
_SURROGATE_ESCAPES = re.compile(r"(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+")
_WORD = re.compile(r"\.?[\w$]")
"""What would join the stand-in for a value that was sent."""
_ESCAPE_OR_QUOTE = re.compile(r"\\([\s\S])|\"")


class RepairError(Exception):
    """The text cannot be repaired; `where` is the reason: an unclosed string, the syntax, or a value."""

    def __init__(self, message: str, where: Literal["string", "syntax", "value"]) -> None:
        super().__init__(message)
        self.where = where


UNESCAPED_AT: frozenset[CommitPoint] = frozenset({"start", "opened"})
"""Where a body that is escaped as a whole deviates from strict JSON: at its first key."""


@dataclass(frozen=True, slots=True)
class RepairedJson:
    """Strict JSON that continues the text already sent; `complete` if no closing bracket was missing.

    `words` are its strings that stood without quotes, and its numbers in another spelling.
    """

    text: str
    complete: bool
    words: frozenset[str] = frozenset()


def repair(
    grammar: str,
    scopes: Sequence[Scope],
    commit_point: CommitPoint,
    text: str,
    call_markers: Sequence[str],
    root: Members = ANYTHING,
    *,
    sent: str = "",
    at_string_start: bool = False,
    has_end_marker: bool = True,
) -> RepairedJson:
    """Rewrite `text` as strict JSON, which continues at `commit_point` inside `scopes` (outermost first).

    `root` is what may stand in the outermost value; `sent` is the JSON before `text`, `at_string_start` if `text`
    begins right after a string's quote, `has_end_marker` if the body's end marker follows it. Raises `RepairError`,
    also where the end of a string with unescaped quotes is ambiguous.
    """
    if commit_point == "after" and _WORD.match(text):
        raise RepairError("two values without a comma", "syntax")
    if commit_point in UNESCAPED_AT:
        text = rewrite_options(unescape_entities(text), scopes[-1].members if scopes else root)
    escaper = QuoteEscaper(text, scopes, root, call_markers, has_end_marker=has_end_marker)
    try:
        quote = '"' if commit_point == "string" else ""
        escaped = escaper.escape(quote, at_string_start=at_string_start, before=sent)
        escaper.check_whole(sent + escaped)
    except AmbiguousQuotesError as error:
        raise RepairError(str(error), "string" if error.unclosed else "syntax") from None
    prefix = _grammar_prefix(["{" if scope.keyed else "[" for scope in scopes], commit_point)
    # A NUL character in the model's text must not be taken for the sentinel.
    whole = prefix + escaped.replace(_END_SENTINEL, " ")
    repaired = _RepairWriter(whole, len(prefix), sent).write(_parse(grammar, whole))
    if not repaired.complete and escaped.rstrip().endswith(","):
        raise RepairError("the body ends before another value", "syntax")
    return repaired


def _parse(grammar: str, text: str) -> Tree[Token]:
    """Parse text whose closing brackets may be missing. Raises `RepairError`."""
    ends = _END_SENTINEL * min(text.count("{") + text.count("["), _MAX_MISSING_BRACKETS)
    try:
        return load_grammar(grammar).parse(text + ends)
    except LarkError as error:
        raise _to_repair_error(error, text + ends) from None


@functools.cache
def load_grammar(name: str) -> Lark:
    """Load `grammars/<name>.lark`, once. Raises `ConfigError` with Lark's position and reason if it is invalid."""
    return _load(resource_dir("grammars") / f"{name}.lark")


def _load(path: Path) -> Lark:
    try:
        return Lark(path.read_text(encoding="utf-8"), parser="lalr", maybe_placeholders=False)
    except (OSError, LarkError) as error:
        raise ConfigError(f"{path}: the grammar cannot be used: {error}") from error


def _grammar_prefix(containers: Sequence[str], commit_point: CommitPoint) -> str:
    """Return the shortest text that brings the grammar to the strict reader's commit point."""
    outer = "".join('{"":' if container == "{" else "[" for container in containers[:-1])
    if not containers:
        return outer
    inside_object = containers[-1] == "{"
    match commit_point:
        case "opened":
            return outer + ("{" if inside_object else "[")
        case "after":
            return outer + ('{"":0' if inside_object else "[0")
        case _:
            return outer + ('{"":"' if inside_object else '["')


def _to_repair_error(error: LarkError, text: str) -> RepairError:
    if isinstance(error, UnexpectedCharacters):
        at: int = error.pos_in_stream or 0
        return RepairError(f"unexpected {text[at : at + 20]!r}", "string" if text[at] in "\"'" else "syntax")
    if isinstance(error, UnexpectedToken):
        return RepairError(f"unexpected {str(error.token)[:20]!r}", "syntax")
    return RepairError(str(error)[:100], "syntax")


class _RepairWriter:
    """Writes one parse tree as strict JSON, without the tokens before `sent_end`, which were already sent."""

    def __init__(self, text: str, sent_end: int, sent: str) -> None:
        self._text = text
        self._sent_end = sent_end
        self._sent = sent
        self._complete = True
        self._words: set[str] = set()
        self._has_loose_object = False
        """True after an empty object that no comma parts from the object before it: it may be a damaged bracket."""

    def write(self, tree: Tree[Token]) -> RepairedJson:
        out: list[str] = []
        todo: list[Tree[Token] | Token | str] = [_body_node(tree)]
        while todo:
            item = todo.pop()
            if isinstance(item, Tree):
                todo.extend(reversed(self._expand(item)))
            elif isinstance(item, Token):
                out.append(self._write_scalar(item))
            else:
                out.append(item)
        if self._has_loose_object and not self._complete:
            raise RepairError("a damaged bracket, or an empty object without a comma", "syntax")
        return RepairedJson("".join(out), self._complete, frozenset(self._words))

    def _expand(self, tree: Tree[Token]) -> list[Tree[Token] | Token | str]:
        if tree.data == "pair":
            key, value = tree.children
            assert isinstance(key, Token)
            return [self._write_key(key), value]
        opening, closing = ("{", "}") if tree.data == "object" else ("[", "]")
        members = [child for child in tree.children if isinstance(child, Tree) or child.type not in _BRACKETS]
        parts: list[Tree[Token] | Token | str] = [opening] if _start_pos(tree) >= self._sent_end else []
        self._check_end(tree, members)
        for position, member in enumerate(members):
            self._check_separator(members[position - 1] if position else None, member)
            if position and _lacks_brace(members[position - 1]) and not self._follows_comma(member):
                raise RepairError("an object is not closed before another value", "syntax")
            if position:
                parts.append(", ")
            parts.append(member)
        self._complete = self._complete and not _is_cut_off(tree)
        return [*parts, closing]

    def _check_separator(self, previous: Tree[Token] | Token | None, member: Tree[Token] | Token) -> None:
        """Raise `RepairError` where a separator is missing, or superfluous, so that the members are not certain."""
        start = _start_pos(member)
        if start < self._sent_end:
            return
        if previous is None:
            if _LEADING_COMMA.search(self._text, max(0, start - _MAX_SPACE), start):
                raise RepairError("a value is missing before a comma", "syntax")
            return
        last = _last_token(previous)
        between = self._text[(last.end_pos or 0) : start]
        if "," in between:
            return
        after_object = _is_object(previous) or ((last.start_pos or 0) < self._sent_end and self._sent.endswith("}"))
        if not between and not (after_object and _is_object(member)):
            raise RepairError("two values without a comma", "syntax")
        self._has_loose_object = self._has_loose_object or (after_object and _is_empty_object(member))
        if self._string_content(last).rstrip()[-1:] in _SEPARATORS:
            raise RepairError("a comma is missing after a string that ends with one", "syntax")

    def _follows_comma(self, member: Tree[Token] | Token) -> bool:
        """Return whether a member is an object after a comma."""
        start = _start_pos(member)
        return _is_object(member) and self._text[max(0, start - _MAX_SPACE) : start].rstrip()[-1:] == ","

    def _check_end(self, tree: Tree[Token], members: Sequence[Tree[Token] | Token]) -> None:
        """Raise `RepairError` where a closing bracket is missing after a string that ends with one."""
        closer = "RBRACE" if tree.data == "object" else "RSQB"
        last = _last_token(members[-1]) if members else None
        if last is not None and not _ends_with(tree, closer) and ends_with_closer(self._string_content(last)):
            raise RepairError("a bracket is missing after a string that ends with one", "syntax")

    def _string_content(self, last: Token) -> str:
        """Return the content of a string, which may have been sent in part; empty for any other token."""
        if _start_pos(last) >= self._sent_end:
            return last[1:-1] if last.type in _STRINGS else ""
        written = (self._sent + self._text[self._sent_end : last.end_pos]).rstrip()
        return after_last_quote(written[:-1]) if written[-1:] == '"' else ""

    def _write_key(self, token: Token) -> str:
        if _start_pos(token) < self._sent_end:
            return ""
        if token.type == "K_WORD":
            return json.dumps(str(token), ensure_ascii=False) + ": "
        content = _CONTROLS.sub(_escape_control, _strict_content(token[1:-1], token[0]))
        return '"' + _SURROGATE_ESCAPES.sub(_join_surrogates, content) + '": '

    def _write_scalar(self, token: Token) -> str:
        start = _start_pos(token)
        if token.type in _STRINGS:
            return self._write_string(token, sent=start < self._sent_end)
        if start < self._sent_end:
            return ""
        if token.type == "LITERAL":
            return atom_to_json(token) or "null"  # undefined
        number = atom_to_json(token)
        if number is None:
            raise RepairError(f"{token[:20]} is no JSON", "value")
        if number != token:
            self._words.add(number)
        return number

    def _write_string(self, token: Token, *, sent: bool) -> str:
        if token.type == "V_WORDS":
            if is_damaged_word(token.strip()):
                raise RepairError(f"{token[:20]!r} is no JSON", "value")
            self._words.add(token.strip())
            return json.dumps(token.strip(), ensure_ascii=False)
        content = _strict_content(token[3:-3] if token.type == "V_TRIPLE" else token[1:-1], token[0])
        return content + '"' if sent else f'"{content}"'


_BRACKETS = frozenset({"LBRACE", "RBRACE", "LSQB", "RSQB", "END", "FENCE"})
_STRINGS = frozenset({"V_DOUBLE", "V_SINGLE", "V_TRIPLE", "V_CURLY", "V_WORDS"})
_SEPARATORS = frozenset(",，;")
_LEADING_COMMA = re.compile(r"[\[{]\s*,\s*\Z")
_MAX_SPACE = 64


def _body_node(tree: Tree[Token]) -> Tree[Token]:
    return next(child for child in tree.children if isinstance(child, Tree))


def _is_object(node: Tree[Token] | Token) -> bool:
    return isinstance(node, Tree) and node.data == "object"


def _is_empty_object(node: Tree[Token] | Token) -> bool:
    return isinstance(node, Tree) and node.data == "object" and all(isinstance(child, Token) for child in node.children)


def _lacks_brace(node: Tree[Token] | Token) -> bool:
    """Return whether a node is an object without its closing brace, in an array."""
    return isinstance(node, Tree) and node.data == "object" and not _ends_with(node, "RBRACE", "END")


def _ends_with(container: Tree[Token], *types: str) -> bool:
    last = container.children[-1]
    return isinstance(last, Token) and last.type in types


def _is_cut_off(container: Tree[Token]) -> bool:
    """Return whether the reply may have ended inside a container: not where the bracket around an object is closed."""
    return _ends_with(container, "END") if container.data == "object" else not _ends_with(container, "RSQB")


def _last_token(node: Tree[Token] | Token) -> Token:
    """Return the last token of a node that was in the text."""
    while isinstance(node, Tree):
        node = next(child for child in reversed(node.children) if isinstance(child, Tree) or child.type != "END")
    return node


def _start_pos(node: Tree[Token] | Token) -> int:
    while isinstance(node, Tree):
        node = node.children[0]
    return node.start_pos or 0


def _strict_content(raw: str, quote: str) -> str:
    r"""Escape inner double quotes; `\'` becomes `'`. The strict reader fixes other escapes and control characters."""

    def spell(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped is None:
            return '\\"'
        return "'" if escaped == "'" and quote == "'" else match[0]

    return _ESCAPE_OR_QUOTE.sub(spell, raw)


def _escape_control(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def _join_surrogates(match: re.Match[str]) -> str:
    """Decode a run of surrogate escapes; a lone surrogate becomes U+FFFD."""
    surrogates: str = json.loads(f'"{match[0]}"')
    return surrogates.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
