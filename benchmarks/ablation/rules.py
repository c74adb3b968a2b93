"""The rules of the parser: each condition in the source of `fcshim.parse`, found by `ast` and switched off at run time.

A rule is the test of an `if`, an operand of `and` or `or`, or the result of a function that returns a `bool`. Switched
off it counts as false, as an operand of `and` as true.

Rule: `install` comes before the first import of `fcshim.parse`.
"""

import ast
import importlib.machinery
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = "fcshim.parse"
SOURCE = Path(__file__).parents[2] / "fcshim"


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition: its place, its source, and the source of the statements that go with it."""

    path: Path
    line: int
    condition: str
    statements: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(SOURCE / 'parse')}:{self.line} {' '.join(self.condition.split())[:80]}"

    def cost(self) -> int:
        """Return the lines that go with the rule, with those of the private functions that nothing else names."""
        source = self.path.read_text(encoding="utf-8")
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        only_here = [node for node in functions if len(re.findall(rf"\b{node.name}\b", source)) == 2]
        called = [node for node in only_here if re.search(rf"\b{node.name}\b", self.statements)]
        return len(self.statements.splitlines()) + sum((node.end_lineno or 0) - node.lineno + 2 for node in called)


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
    """Wraps each condition of a module in a call that records and switches it."""

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        self._functions: list[ast.FunctionDef] = []

    def _wrap(self, kind: str, node: ast.expr, *statements: ast.stmt) -> ast.expr:
        parts = [ast.get_source_segment(self._source, each) or "" for each in (node, *statements)]
        RULES.append(Rule(self._path, node.lineno, parts[0], "\n".join(parts) if statements else ""))
        number = ast.Constant(len(RULES) - 1)
        return ast.copy_location(ast.Call(ast.Name(kind, ast.Load()), [number, self.visit(node)], []), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._functions.append(node)
        self.generic_visit(node)
        self._functions.pop()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self._wrap("_ablation_test", node.test, *node.body)
        node.body, node.orelse = ([self.visit(each) for each in part] for part in (node.body, node.orelse))
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
        returns = self._functions[-1].returns
        if node.value is None or not isinstance(returns, ast.Name) or returns.id != "bool":
            return self.generic_visit(node)
        node.value = node.value if isinstance(node.value, ast.Constant) else self._wrap("_ablation_test", node.value)
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        source = path.read_text(encoding="utf-8")
        tree = _Instrumenter(path, source).visit(ast.parse(source))
        return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_ablation_test=_test, _ablation_guard=_guard)
        super().exec_module(module)


class _Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != PACKAGE and not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Load the modules of the parser with each condition switchable."""
    assert PACKAGE not in sys.modules
    sys.meta_path.insert(0, _Finder)
