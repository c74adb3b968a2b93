"""Snippets of code and prose with double quotes: what models write as the content of a file.

Rule: the snippets are functions, classes, docstrings and lines of the standard library of this Python; the same random
generator gives the same ones.
"""

import ast
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from fcshim.messages import Tool
from fcshim.testing.mutations.seeds import Seed

_MAX_LINES = 40
_MAX_CHARACTERS = 6_000
_LEFT_OUT = frozenset({"site-packages", "test", "tests", "idle_test", "lib2to3"})
_PROPERTIES = {
    "path": {"type": "string"},
    "content": {"type": "string"},
    "mode": {"enum": ["w", "a"]},
    "overwrite": {"type": "boolean"},
}
WRITE_FILE = Tool(
    "write_file",
    "Write a file.",
    {"type": "object", "properties": _PROPERTIES, "required": ["path", "content"]},
)
_OPTIONAL: tuple[dict[str, str | bool], ...] = ({}, {}, {"mode": "w"}, {"overwrite": True})


def snippets(rng: random.Random) -> Iterator[str]:
    """Yield different snippets that contain double quotes, without end."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(file for file in root.rglob("*.py") if not _LEFT_OUT & set(file.relative_to(root).parts))
    seen = set[str]()
    while True:
        snippet = _snippet(rng.choice(files).read_text(encoding="utf-8", errors="replace"), rng)
        if '"' in snippet and snippet not in seen and len(snippet) <= _MAX_CHARACTERS:
            seen.add(snippet)
            yield snippet


def _snippet(source: str, rng: random.Random) -> str:
    """Return a part of a module; it may be empty."""
    lines = source.splitlines(keepends=True)
    if not lines:
        return ""
    kind = rng.choice(("lines", "definition", "definition", "docstring"))
    if kind == "lines":
        start = rng.randrange(len(lines))
        return "".join(lines[start : start + rng.randint(1, _MAX_LINES)])
    nodes = [node for node in _nodes(source) if (node.end_lineno or 0) - node.lineno < _MAX_LINES]
    if not nodes:
        return ""
    node = rng.choice(nodes)
    return "".join(lines[node.lineno - 1 : node.end_lineno]) if kind == "definition" else ast.get_docstring(node) or ""


def _nodes(source: str) -> list[ast.FunctionDef | ast.ClassDef]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def snippet_seed(snippet: str, rng: random.Random) -> Seed:
    """Return the call that writes a snippet to a file, with its arguments in random order."""
    arguments = list({"path": "src/a.py", "content": snippet, **rng.choice(_OPTIONAL)}.items())
    rng.shuffle(arguments)
    return Seed([WRITE_FILE], [(WRITE_FILE.name, dict(arguments))])
