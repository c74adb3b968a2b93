"""Reads the syntax of a script with a parser of Bash: its commands, here-documents, and strings with substitutions.

Rule: words that the shell computes are kept as they are written, and are not `known`. Needs the extra
`fcshim[tools]`.
"""

import re
import shlex
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from fcshim.tools.commands.certainty import is_tree_certain
from fcshim.tools.commands.programs import is_risky_variable
from fcshim.tools.commands.words import ShellWord, assigned_name

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_UNKNOWN_NODES = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
    | {"ansi_c_string", "translated_string", "brace_expression"}
)
_REDIRECTS_BETWEEN_WORDS = frozenset({"herestring_redirect", "file_redirect"})
_NO_TARGETS = frozenset({"file_descriptor", "pipeline", "list"})
_SUBSTITUTION_SIGNS = frozenset({"$(", "$((", "$["})
_BACKQUOTED = re.compile("`([^`]*)`")
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_SHELL_PATTERN = re.compile(r"[*?[]|\{[^}]*(?:,|\.\.)")
_LINE_CONTINUATION = re.compile(r"\\\n")


def walk_syntax(script: str) -> "SyntaxWalk | None":
    """Parse a script; None without the parser."""
    parser = bash_parser()
    if parser is None:
        return None
    tree = parser.parse(_LINE_CONTINUATION.sub("", script).encode(errors="replace"))
    return SyntaxWalk(tree.root_node)


class SyntaxWalk:
    """Collects commands from a syntax tree; `computed`: words that the shell evaluates as code, or reads otherwise."""

    def __init__(self, root: "Node") -> None:
        self.commands: list[tuple[ShellWord, ...]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        """The backquoted commands of here-documents, which the parser reads as text."""
        self.computed = not is_tree_certain(root)
        self.has_error = root.has_error
        pending = [root]
        while pending:
            node = pending.pop()
            pending += reversed(node.children)
            self._visit(node)

    def _visit(self, node: "Node") -> None:
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                self.commands.append(_words_of(node))
                words = [child for child in node.children if child.type not in _REDIRECTS_BETWEEN_WORDS]
                # Where two words touch, the parser has split what is one word for the shell.
                self.computed |= any(one.end_byte == other.start_byte for one, other in pairwise(words))
            case "heredoc_redirect":
                self._visit_heredoc(node)
            case "variable_assignment":
                self.computed |= is_risky_variable(assigned_name(_text(node)))
            case "heredoc_body" | "herestring_redirect":
                self.texts.append(_text(node) if node.type == "heredoc_body" else _word(node.children[-1]).text)
            case _:
                pass

    def _visit_heredoc(self, node: "Node") -> None:
        """Collect the substitutions of a here-document; the shell expands none if its start has quotes."""
        start = next((_text(child) for child in node.children if child.type == "heredoc_start"), "")
        if any(sign in start for sign in "'\"\\"):
            return
        for body in node.children:
            if body.type == "heredoc_body":
                self.computed |= _hides_substitution(body)
                self.scripts += _BACKQUOTED.findall(_text(body))


def _hides_substitution(body: "Node") -> bool:
    """Return whether a here-document holds more substitutions and arithmetic than the parser has found in it."""
    text = _text(body)
    return text.count("$(") + text.count("$[") > _count(body, _SUBSTITUTION_SIGNS)


def _count(root: "Node", types: frozenset[str]) -> int:
    found, pending = 0, [root]
    while pending:
        node = pending.pop()
        found += node.type in types
        pending += node.children
    return found


def _words_of(command: "Node") -> tuple[ShellWord, ...]:
    words = [_word(node) for node in command.children if node.type not in _REDIRECTS_BETWEEN_WORDS]
    parent = command.parent
    around = parent.children if parent is not None and parent.type == "redirected_statement" else []
    for redirect in (*command.children, *around):
        if redirect.type in ("file_redirect", "heredoc_redirect"):
            # The words after the redirection's target are arguments: `git >f push`.
            targets = [node for node in redirect.named_children if node.type not in _NO_TARGETS]
            words += [_word(node) for node in targets[1:] if node.type not in ("heredoc_body", "heredoc_end")]
    return tuple(words)


def _word(node: "Node") -> ShellWord:
    source = _text(node)
    if _has_unknown(node) or _SHELL_PATTERN.search(_QUOTED.sub("", source)):
        return ShellWord(source, source, known=False)
    try:
        return ShellWord(source, "".join(shlex.split(source)))
    except ValueError:
        return ShellWord(source, source, known=False)


def _has_unknown(node: "Node") -> bool:
    pending = [node]
    while pending:
        each = pending.pop()
        if each.type in _UNKNOWN_NODES:
            return True
        pending += each.children
    return False


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


@cache
def bash_parser() -> "Parser | None":
    """Return the parser; None without the extra `fcshim[tools]`."""
    try:
        import tree_sitter_bash  # noqa: PLC0415 - an optional library
        from tree_sitter import Language, Parser  # noqa: PLC0415
    except ImportError:
        return None
    return Parser(Language(tree_sitter_bash.language()))
