"""The rules of the parser: every condition in the source of `fcshim.parse`, found by `ast` and switched off at run time.

A rule is the test of an `if`, an operand of `and` or `or`, or the result of a function that returns a `bool`. Switched
off it counts as false, as an operand of `and` as true.

Rule: `install` comes before the first import of `fcshim.parse`.
"""

import ast
import functools
import importlib.abc
import importlib.machinery
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = "fcshim.parse"
SOURCE = Path(__file__).parents[2] / "fcshim"


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition, and the lines of the statements that go with it."""

    path: Path
    line: int
    function: str
    source: str
    lines: frozenset[int]

    def __str__(self) -> str:
        name = self.path.relative_to(SOURCE / "parse")
        return f"{name}:{self.line} {self.function}: {' '.join(self.source.split())[:80]}"


RULES: list[Rule] = []
FIRED: set[int] = set()
"""The numbers of the rules that decided since the set was cleared."""
OFF: set[int] = set()


def _test(number: int, value: object) -> object:
    if value and number in OFF:
        return False
    if value:
        FIRED.add(number)
    return value


def _guard(number: int, value: object) -> object:
    if not value and number in OFF:
        return True
    if not value:
        FIRED.add(number)
    return value


class _Instrumenter(ast.NodeTransformer):
    """Wraps every condition of a module in a call that records and switches it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._functions: list[ast.FunctionDef] = []

    def _wrap(self, kind: str, node: ast.expr, *others: ast.AST) -> ast.expr:
        function = self._functions[-1].name if self._functions else ""
        freed = frozenset().union(*map(_lines, others))
        RULES.append(Rule(self._path, node.lineno, function, ast.unparse(node), freed))
        number = ast.Constant(len(RULES) - 1)
        return ast.copy_location(ast.Call(ast.Name(kind, ast.Load()), [number, self.visit(node)], []), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._functions.append(node)
        self.generic_visit(node)
        self._functions.pop()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self._wrap("_ablation_test", node.test, node.test, *node.body)
        node.body = [self.visit(each) for each in node.body]
        node.orelse = [self.visit(each) for each in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._wrap("_ablation_test", node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        kind = "_ablation_test" if isinstance(node.op, ast.Or) else "_ablation_guard"
        node.values = [self._wrap(kind, value) for value in node.values]
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        function = self._functions[-1]
        returns_bool = isinstance(function.returns, ast.Name) and function.returns.id == "bool"
        if node.value is None or not returns_bool or isinstance(node.value, ast.Constant):
            return self.generic_visit(node)
        has_more = len(function.body) > 2  # than a docstring and this statement
        node.value = self._wrap("_ablation_test", node.value, node if has_more else function)
        return node


def _lines(node: ast.AST) -> set[int]:
    assert isinstance(node, (ast.expr, ast.stmt))
    return set(range(node.lineno, (node.end_lineno or 0) + 1))


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        tree = _Instrumenter(path).visit(ast.parse(path.read_text(encoding="utf-8")))
        return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_ablation_test=_test, _ablation_guard=_guard)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != PACKAGE and not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Load the modules of the parser with every condition switchable."""
    assert PACKAGE not in sys.modules
    sys.meta_path.insert(0, _Finder())


Place = tuple[Path, int]


@functools.cache
def _names() -> tuple[dict[str, set[Place]], dict[str, set[Place]], set[Place]]:
    """Return where each name is used and defined, and all lines with code."""
    uses, definitions, code = defaultdict[str, set[Place]](set), defaultdict[str, set[Place]](set), set[Place]()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.stmt) and not is_docstring:
                code.add((path, node.lineno))
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                uses[node.id if isinstance(node, ast.Name) else node.attr].add((path, node.end_lineno or 0))
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                definitions[node.name] |= {(path, line) for line in _lines(node)}
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                definitions[node.targets[0].id] |= {(path, line) for line in _lines(node)}
    return uses, definitions, code


def cost(rule: Rule) -> int:
    """Return the number of statements that go with a rule, those of what nothing else uses included."""
    uses, definitions, code = _names()
    freed = {(rule.path, line) for line in rule.lines}
    while found := [name for name in definitions if uses[name] and uses[name] <= freed and definitions[name] - freed]:
        freed |= set().union(*(definitions[name] for name in found))
    return len(freed & code)
