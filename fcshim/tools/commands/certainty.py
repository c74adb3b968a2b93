"""Decides whether the texts that Bash evaluates are certain: arithmetic, subscripts, offsets, names of variables.

Rule: such a text may run a command (`a[$(x)]`), also from the value of a variable in it. It is certain if it is written
out, and holds numbers, operators and counters alone: variables to which the line assigns numbers, and nothing else.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from fcshim.tools.commands.words import ShellWord, assigned_name

if TYPE_CHECKING:
    from tree_sitter import Node

_NUMBER = re.compile(r"-?\d+")
_OPERATOR = re.compile(r"[^\w`'\\]+|\$\(\(|\$\[")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\[(?:\d+|[@*])\])?")
_ASSIGNED = re.compile(r"""(["']?[A-Za-z_]\w*\+?=)["']?(?:[^"'$`(]|$)""")
"""An assignment whose value is not written as an array, and cannot become one: `declare` evaluates its subscripts."""
_KEYS = re.compile(r"\$\{!\w+(?:\[[@*]\]|[@*])\}")
"""The names of variables or the keys of an array; any other `${!x}` evaluates a value."""
_ELEMENT = re.compile(r"\[(?!\d+\]\+?=)")
_COUNTS = frozenset({"$#", "$?", "$$", "$!", "${#}", "${?}"})
_VALUE = re.compile(r"\$(?:\w+|\{\w+\}|\(\([^()]*\)\))")
_WORD_SIGNS = re.compile(r"\w+")
_MAX_CLUSTER = 8
"""Characters of an option in which the letters before its value may stand."""
_NUMERIC_OPERATORS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NAME_OPERATORS = frozenset({"-v", "-R"})
_SUBSTITUTION = re.compile(r"`|\$[(\[]|[<>]\(")
_EVALUATED = frozenset(
    {"arithmetic_expansion", "compound_statement", "c_style_for_statement", "command_substitution", "subscript"}
    | {"expansion", "array", "unary_expression", "binary_expression"}
)
_BODIES = frozenset({"for", "do_group", "compound_statement"})
_SUBSTITUTION_TOKENS = frozenset({"$(", "`", "$((", "$[", "<(", ">("})
_TEXTS = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content"})
_ASSIGNING = frozenset({"declare", "typeset", "local", "export", "readonly"})
_NAMING = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "wait"})
EVALUATING_BUILTINS = _ASSIGNING | _NAMING | {"let", "printf", "test", "["}
"""They evaluate their arguments, quoted or not, as names of variables or as arithmetic: `test -v 'a[$(rm x)]'`."""


def is_tree_certain(root: "Node") -> bool:
    """Return whether all texts in a script that Bash evaluates are certain, and all its substitutions were parsed."""
    nodes = list(_nodes(root))
    evaluated = [node for node in nodes if node.type in _EVALUATED]
    counters = _counters(nodes) if evaluated else frozenset()
    return all(_is_node_certain(node, counters) for node in evaluated) and not any(map(_hides_substitution, nodes))


def is_builtin_certain(words: Sequence[ShellWord]) -> bool:
    """Return whether the arguments of a builtin that evaluates them are certain."""
    name, arguments = words[0].text, words[1:]
    if name == "let":
        return all(word.known and not re.search(r"[^\d\s+*/%()-]", word.text) for word in arguments)
    if name == "printf":
        return _is_printf_certain(arguments)
    if name in ("test", "["):
        return _is_test_certain(arguments if name == "test" else arguments[:-1])
    if name in _ASSIGNING:
        options = [word.text for word in arguments if word.text.startswith(("-", "+"))]
        evaluates = any(sign in option for option in options for sign in "in")  # numbers, references
        return not evaluates and all(_ASSIGNED.match(word.source) or _is_name(word) for word in arguments)
    return all(map(_is_name, arguments))


def is_assignment_certain(word: ShellWord) -> bool:
    """Return whether a word such as `a[1]=x` has a certain subscript, if any."""
    subscript = word.source[len(assigned_name(word.source)) :].partition("=")[0].rstrip("+")
    return not subscript or _NUMBER.fullmatch(subscript[1:-1]) is not None


def _is_name(word: ShellWord) -> bool:
    """Return whether a word is a name, an option, or another text without a subscript."""
    return word.known and ("[" not in word.text or _NAME.fullmatch(word.text) is not None)


def _is_printf_certain(arguments: Sequence[ShellWord]) -> bool:
    first = arguments[0] if arguments else ShellWord("--", "--")
    if not first.known:
        return first.source.strip("\"'")[:1].isalnum()
    if not first.text.startswith("-v"):
        return True
    variable = ShellWord(first.text[2:], first.text[2:]) if len(first.text) > 2 else next(iter(arguments[1:]), first)
    return variable.known and _NAME.fullmatch(variable.text) is not None


def _is_test_certain(arguments: Sequence[ShellWord]) -> bool:
    """Return whether no argument can be the operator `-v` with a name that is not certain."""
    if all(word.known for word in arguments):
        texts = [word.text for word in arguments]
        names = [other for one, other in pairwise(texts) if one in _NAME_OPERATORS]
        return all(map(_NAME.fullmatch, names))
    operators = {1: (), 2: (0,), 3: (1,)}.get(len(arguments))
    return operators is not None and all(
        arguments[at].known and arguments[at].text not in ("!", *_NAME_OPERATORS) for at in operators
    )


def _nodes(root: "Node") -> Iterator["Node"]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _counters(nodes: Sequence["Node"]) -> frozenset[str]:
    """Return the variables to which the script assigns numbers, and nothing else."""
    numbers: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        match node.type:
            case "variable_assignment":
                value = node.children[-1]
                certain = value.type == "arithmetic_expansion" or _NUMBER.fullmatch(_text(value)) is not None
                name = _WORD_SIGNS.match(_text(node))
                (numbers if certain and node.children[0].type == "variable_name" else others).add(
                    name[0] if name else ""
                )
            case "for_statement":
                values = [_text(child) for child in node.named_children[1:] if child.type != "do_group"]
                (numbers if values and all(map(_NUMBER.fullmatch, values)) else others).add(
                    _text(node.named_children[0])
                )
            case "command" | "declaration_command" | "unset_command":
                others.update(_named_variables(node))
            case "expansion" if any(child.type in ("=", ":=") for child in node.children):
                others.update(_text(child) for child in node.named_children[:1])
            case _:
                pass
    return frozenset(numbers - others)


def _named_variables(command: "Node") -> Iterator[str]:
    """Yield the variables that a command's arguments may name: `-vx` of `printf` means `x`."""
    for child in command.children:
        if child.type != "variable_assignment":
            text = _text(child)
            for name in _WORD_SIGNS.findall(_VALUE.sub("", text)):
                yield from (name[at:] for at in range(min(len(name), _MAX_CLUSTER) if text.startswith("-") else 1))


def _is_node_certain(node: "Node", counters: frozenset[str]) -> bool:
    children, certain = node.children, True
    match node.type:
        case "arithmetic_expansion" | "compound_statement" | "c_style_for_statement":
            evaluated = node.type != "compound_statement" or children[0].type == "(("
            parts = [child for child in children if child.type not in _BODIES]
            certain = not evaluated or _is_expression(parts, counters)
        case "command_substitution" if _text(node).startswith("$(("):
            certain = False  # the parser takes some arithmetic for a subshell
        case "subscript":
            certain = _text(node).endswith(("[@]", "[*]")) or _is_expression(children[1:], counters)
        case "expansion":
            certain = _is_expansion_certain(node, counters)
        case "array":
            certain = not any(_ELEMENT.match(_text(child)) for child in children)
        case "unary_expression" if _text(children[0]) in _NAME_OPERATORS:
            certain = _NAME.fullmatch(_text(children[-1])) is not None
        case "binary_expression" if any(_text(child) in _NUMERIC_OPERATORS for child in children):
            certain = _is_comparison_certain(node, counters)
        case _:
            pass
    return certain


def _hides_substitution(node: "Node") -> bool:
    """Return whether a text holds a substitution that the parser has not found."""
    if node.child_count or node.type in _TEXTS or node.type in _SUBSTITUTION_TOKENS:
        return False
    return _SUBSTITUTION.search(_text(node)) is not None


def _is_comparison_certain(node: "Node", counters: frozenset[str]) -> bool:
    """Return whether the operands of `-eq` and the like are certain: single brackets do not evaluate them."""
    test = node
    while test.type != "test_command" and test.parent is not None:
        test = test.parent
    in_single_brackets = _text(test).startswith("[ ")
    return in_single_brackets or _is_expression([node.children[0], node.children[-1]], counters)


def _is_expansion_certain(node: "Node", counters: frozenset[str]) -> bool:
    types = [child.type for child in node.children]
    if types[1:2] == ["!"]:
        return _KEYS.fullmatch(_text(node)) is not None
    if "@" in types and "P" in types:
        return False
    return ":" not in types or _is_expression(node.children[types.index(":") : -1], counters)


def _is_expression(nodes: Sequence["Node"], counters: frozenset[str]) -> bool:
    """Return whether an expression holds numbers, operators and counters alone."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        text = _text(node)
        if node.type == "command_substitution":
            return False
        if node.type in ("simple_expansion", "expansion"):
            if not (text.startswith("${#") or text in _COUNTS or text.strip("${}") in counters):
                return False  # `${#x}` is a number; `$1` is not
        elif node.children:
            pending += node.children
        elif not (text in counters or _NUMBER.fullmatch(text) or _OPERATOR.fullmatch(text) or not text.strip()):
            return False
    return True
