"""CONTRIBUTING.md says what is true: what it names exists, and the code keeps the numbers of its rules."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fcshim"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODULES = {
    file: ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py") if "recipe" not in file.parts
}
CODE = [text for text in re.findall(r"`([^`\n]+)`", PAGE) if "<" not in text and "*" not in text]
PATHS = sorted({text for text in CODE if re.fullmatch(r"[\w./-]+/[\w./-]*|[\w.-]+\.(?:py|md|toml|jinja)", text)})
TEMPLATES = {"system.jinja", "call.jinja", "result.jinja"}
MADE = {".venv", ".cache/", ".cache/models", ".cache/screens", ".cache/ray", ".cache/clients"}
"""Folders that the commands make."""


@pytest.mark.parametrize("path", [path for path in PATHS if path not in TEMPLATES | MADE])
def test_every_file_that_it_names_exists(path: str) -> None:
    """A path is one of the checkout, or of the package; a file name alone is one in a codec."""
    places = [ROOT / path, PACKAGE / path, PACKAGE / "codecs" / "anthropic" / path]

    assert [place for place in places if place.exists()]


def test_every_command_that_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"\bmake ([a-z][\w-]*)", PAGE))
    modules = set(re.findall(r"python -m ([\w.]+)", PAGE))

    assert [] == [name for name in targets if f"\n{name}:" not in makefile]
    assert [] == [
        name
        for name in modules
        if not (ROOT / name.replace(".", "/")).is_dir() and not (ROOT / f"{name.replace('.', '/')}.py").exists()
    ]
    assert {"test", "check"} <= targets
    assert {"benchmarks.ablation", "tests.golden"} <= modules


def test_every_name_of_the_code_that_it_mentions_exists() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in [*MODULES, *(ROOT / "tests").rglob("*.py")])
    names = {text for text in CODE if re.fullmatch(r"(?:[A-Z][a-z]+){2,}|[a-z]+(?:_[a-z]+)+", text)}

    assert [] == [name for name in sorted(names) if not re.search(rf"\b{name}\b", source)]
    assert {"ModelSettings", "ModelOptions", "make_shim", "OutageGuard"} <= names


def test_no_file_has_more_than_700_lines() -> None:
    sizes = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES}

    assert {} == {name: size for name, size in sizes.items() if size > 700}


def test_a_class_name_exists_once() -> None:
    places = defaultdict(list)
    for file, module in MODULES.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(ROOT)))

    assert {} == {name: files for name, files in places.items() if len(files) > 1}


def test_functions_are_short() -> None:
    sizes = [
        node.end_lineno - node.lineno + 1
        for module in MODULES.values()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]

    assert max(sizes) <= 70
    assert sum(size <= 20 for size in sizes) > 0.94 * len(sizes)


def test_a_chain_of_our_own_classes_is_at_most_three_long() -> None:
    nodes = [node for module in MODULES.values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    bases = {node.name: [base.id for base in node.bases if isinstance(base, ast.Name)] for node in nodes}

    def chain(name: str) -> int:
        return 1 + max((chain(base) for base in bases[name] if base in bases), default=0)

    assert {} == {name: chain(name) for name in bases if chain(name) > 3}


def test_whatever_is_caught_is_logged_or_has_a_reason() -> None:
    unexplained = []
    for file, module in MODULES.items():
        lines = file.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(module):
            if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) == "Exception"):
                logged = "logger.exception(" in "\n".join(lines[node.lineno : node.end_lineno])
                if not logged and "# noqa: BLE001" not in lines[node.lineno - 1]:
                    unexplained.append(f"{file.relative_to(ROOT)}:{node.lineno}")

    assert [] == unexplained


def test_there_is_no_global_state_by_the_statement() -> None:
    assert [] == [
        str(file) for file, module in MODULES.items() for node in ast.walk(module) if isinstance(node, ast.Global)
    ]


def test_json_is_the_only_name_for_any_in_signatures_of_data() -> None:
    """`Any` stands only where Python's own types have it: coroutines, caches of anything, compiled patterns."""
    users = {file.name for file, module in MODULES.items() if re.search(r"import .*\bAny\b", ast.unparse(module))}

    assert users <= {"events.py", "content.py", "dialect_folder.py", "memory_trim.py", "pattern.py", "resources.py"}
