"""Untrusted ignore files: their patterns neither block the process nor hide an error."""

import os

import pytest

from fcshim.tools.builtin import search
from fcshim.tools.builtin.search import files_under

pytestmark = pytest.mark.security

HOSTILE = [
    "*a" * 40 + "b",
    "*?" * 40 + "b",
    "[a-z]*" * 20 + "!",
    "**/a" * 40,
    "**/*a" * 30 + "b",
    "/**/" * 40 + "b",
    "*" * 3_000 + "b",
    "a" * 100_000,
    "[" * 1_000,
    "\\" * 999,
    "!" * 500,
    "\n".join(f"*a{number}*b*c*d" for number in range(20_000)),
    "*.pyc\n" * 20_000,
]


@pytest.fixture(params=["re2", "re"])
def matcher(request, monkeypatch):
    if request.param == "re":
        monkeypatch.setattr(search.importlib.util, "find_spec", lambda name: None)
    else:
        pytest.importorskip("re2")


@pytest.mark.usefixtures("matcher")
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_ignore_file_costs_little(number, tmp_path):
    """Without the limits the second pattern alone takes longer than any test may: 50 s for a name of 30 characters."""
    (tmp_path / ".gitignore").write_text(HOSTILE[number])
    for name in ("a" * 250, "ab" * 120, "a" * 30):
        (tmp_path / name).write_text("x")
    deep = tmp_path.joinpath(*"a" * 60)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")

    assert len(list(files_under(tmp_path, tmp_path))) <= 5


@pytest.mark.usefixtures("matcher")
def test_ordinary_ignore_files_are_followed(tmp_path):
    (tmp_path / ".gitignore").write_text(
        "*.py[cod]\n__pycache__/\n/build\n**/*.log\n!keep.log\n*.egg-info/\n.env*\ndoc/**/*.tmp\n# a comment\n\n*~\n"
    )
    names = ["a.py", "a.pyc", "__pycache__/x", "build/x", "src/build/x", "a.log", "keep.log", "deep/er/b.log"]
    names += ["x.egg-info/y", ".env", ".env.local", "doc/a/b/c.tmp", "doc/c.txt", "a~", "readme"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = {file.relative_to(tmp_path).as_posix() for file in files_under(tmp_path, tmp_path)}

    assert {".gitignore", "a.py", "src/build/x", "keep.log", "doc/c.txt", "readme"} == found


def test_names_that_are_not_unicode_are_listed(tmp_path):
    (tmp_path / ".gitignore").write_text("*.log\n")
    name = os.fsdecode(b"\xff.txt")
    (tmp_path / name).write_text("x")

    assert tmp_path / name in list(files_under(tmp_path, tmp_path))


def test_a_listing_ends_at_its_time_limit(tmp_path, monkeypatch):
    for number in range(50):
        (tmp_path / str(number)).write_text("x")
    monkeypatch.setattr(search, "MAX_SECONDS", -1.0)

    assert 1 == len(list(files_under(tmp_path, tmp_path)))
