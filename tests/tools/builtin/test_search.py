"""Glob and Grep. Requirement 40."""

import pytest

from fcshim.tools.builtin import Search, Workspace
from fcshim.tools.builtin.search import GlobPattern
from tests.tools.builtin.tool_calls import error_text, result_text

FILES = {
    "a.py": "import os\nprint('hello')\n",
    "src/b.py": "HELLO = 1\n",
    "src/deep/c.ts": "hello\r\n",
    "src/deep/d.tsx": "",
    "build/e.py": "hello",
    "keep.log": "hello",
    "x.log": "hello",
    "src/local/f.py": "hello",
    ".git/config": "hello",
    "bin": "a\0hello",
    ".gitignore": "build/\n*.log\n!keep.log\n",
    "src/.gitignore": "local\n",
}


@pytest.fixture
def tools(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "loop").symlink_to(tmp_path)
    return Search(Workspace(tmp_path)).tools()


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", ["a.py", "src/b.py"]),
        ("src/**/*.{ts,tsx}", ".", ["src/deep/c.ts", "src/deep/d.tsx"]),
        ("**/*.py", ".", ["a.py", "src/b.py"]),
        ("src/*.py", ".", ["src/b.py"]),
        ("*.py", "src", ["src/b.py"]),
        ("*.log", ".", ["keep.log"]),
        ("c.ts", "src/deep", ["src/deep/c.ts"]),
    ],
)
async def test_files_are_found_by_name(tools, pattern, path, expected):
    assert "\n".join(expected) == await result_text(tools, "Glob", pattern=pattern, path=path)


async def test_no_matching_file_is_reported(tools):
    assert "No file matches *.rs." == await result_text(tools, "Glob", pattern="*.rs")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"pattern": "hello"}, ["a.py:2: print('hello')", "keep.log:1: hello", "src/deep/c.ts:1: hello"]),
        ({"pattern": "(?i)^hello"}, ["keep.log:1: hello", "src/b.py:1: HELLO = 1", "src/deep/c.ts:1: hello"]),
        ({"pattern": "hello", "include": "*.py"}, ["a.py:2: print('hello')"]),
        ({"pattern": "hello", "path": "src"}, ["src/deep/c.ts:1: hello"]),
        ({"pattern": "hello", "path": "x.log"}, ["x.log:1: hello"]),
    ],
)
async def test_lines_are_found(tools, asked, expected):
    assert "\n".join(expected) == await result_text(tools, "Grep", **asked)


async def test_no_matching_line_is_reported(tools):
    assert "Nothing matches goodbye in 8 files." == await result_text(tools, "Grep", pattern="goodbye")


async def test_matches_have_a_limit(tools, tmp_path):
    (tmp_path / "many").write_text("hello\n" * 1_000)
    lines = (await result_text(tools, "Grep", pattern="hello", path="many")).splitlines()

    assert 251 == len(lines)
    assert "(the first 250 matches)" == lines[-1]


async def test_a_pattern_that_backtracks_forever_is_stopped(tools, tmp_path, monkeypatch):
    monkeypatch.setattr("fcshim.tools.builtin.search._SECONDS", 0.5)
    (tmp_path / "evil").write_text("a" * 64 + "!")
    text = await result_text(tools, "Grep", pattern="(a+)+$", path="evil")

    assert "(stopped after 0.5 seconds)" in text


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<a>", "a{99999999999999}", "(" * 900])
async def test_an_invalid_pattern_is_an_error(tools, pattern):
    assert "not a regular expression" in await error_text(tools, "Grep", pattern=pattern)


async def test_searches_stay_inside_the_workspace(tools):
    assert "outside" in await error_text(tools, "Grep", pattern="x", path="..")
    assert "outside" in await error_text(tools, "Glob", pattern="*", path="/etc")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("a/**/c.py", "a/b/b/c.py", True),
        ("**", "a/b", True),
        ("a/**", "a/b/c", True),
        ("a/**", "b/c", False),
        ("./a.py", "a.py", True),
        ("[ab].py", "b.py", True),
        ("?.py", "ab.py", False),
        ("{a,b/{c,d}}", "b/d", True),
        ("{a", "{a", True),
    ],
)
def test_patterns(pattern, path, expected):
    assert expected == GlobPattern(pattern).matches(path)


async def test_patterns_have_limits(tools):
    assert "more than 64 patterns" in await error_text(tools, "Glob", pattern="{a,b}" * 10)
    assert not GlobPattern("**/" * 150 + "x").matches("a/" * 200 + "y")
