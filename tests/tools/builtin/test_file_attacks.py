"""Files and arguments that could fill the memory, or answer with errors that say nothing."""

import tracemalloc

import pytest

from fcshim.tools import Registry
from fcshim.tools.builtin import Control, Files, Search, Shell, Skills, Web, Workspace, files
from tests.tools.builtin.tool_calls import call, error_text, result_text

pytestmark = pytest.mark.security

GIGABYTE = 2**30
MEGABYTE = 2**20


@pytest.fixture
def tools(tmp_path):
    return Files(Workspace(tmp_path)).tools()


@pytest.fixture
def peak():
    """Return the most memory, in bytes, that was allocated since the start of the test."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def write_sparse(file, start: bytes, size: int) -> None:
    with file.open("wb") as stream:
        stream.write(start)
        stream.truncate(size)


@pytest.mark.parametrize("part", [{"offset": 1}, {"offset": 2, "limit": 1}, {"limit": 1}, {"column": 5}])
async def test_a_sparse_file_is_no_text(tools, tmp_path, peak, part):
    write_sparse(tmp_path / "a", b"", GIGABYTE)

    assert "a is not a text file." == await error_text(tools, "Read", path="a", **part)
    assert peak() < MEGABYTE


@pytest.mark.parametrize("part", [{"offset": 2, "limit": 1}, {"offset": 3}, {"offset": 2, "column": 5}])
async def test_a_line_of_any_length_takes_little_memory(tools, tmp_path, peak, part):
    """A line of 1 GB took 2 GB."""
    write_sparse(tmp_path / "a", b"x" * 10_000 + b"\n" + b"y" * 300_000, GIGABYTE // 2)
    await call(tools, "Read", path="a", **part)

    assert peak() < 3 * MEGABYTE


async def test_a_search_for_a_line_ends(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SCAN_LIMIT", 20 * MEGABYTE)
    write_sparse(tmp_path / "a", b"x" * 10_000, 100 * GIGABYTE)

    assert "not in the first 20971520 bytes" in await error_text(tools, "Read", path="a", offset=2)
    assert "not in the first 20971520 bytes" in await error_text(tools, "Read", path="a", column=10**9)


async def test_a_whole_file_is_bounded_although_the_system_reports_no_size(tmp_path):
    tools = Files(Workspace("/proc")).tools()
    text = await result_text(tools, "Read", path="kallsyms")

    assert len(text) < 129 * 1024


@pytest.mark.parametrize("number", [10**30, 10**9 + 1, -1, -(10**30)])
async def test_a_number_that_no_file_has_is_an_error(tools, tmp_path, number):
    (tmp_path / "a").write_text("1\n")
    errors = {
        name: await error_text(tools, "Read", path="a", **{name: number}) for name in ("offset", "limit", "column")
    }

    assert {
        "offset": f"offset: expected the number of a line, from 1 to 1000000000, got {number}",
        "limit": f"limit: expected the number of lines, from 1 to 1000000000, got {number}",
        "column": f"column: expected the number of a character of the line, from 1 to 1000000000, got {number}",
    } == errors


PATHS = {
    "a long name": ("x" * 300, "expected names of at most 255 bytes"),
    "a long name in a folder": ("sub/" + "ü" * 200 + "/a", "expected names of at most 255 bytes"),
    "a long path": ("x/" * 5_000, "expected names of at most 255 bytes and 4096 in all"),
    "a NUL": ("a\0b", "expected a path"),
    "half of a surrogate pair": ("a\ud800", "expected a path"),
    "a user that does not exist": ("~nobody-of-this-name/a", "expected a path"),
    "a loop of links": ("loop/a", "loop/a"),
    "below a file": ("file/a", "file/a"),
}
CALLS = {
    "Read": {},
    "Write": {"content": "x"},
    "Edit": {"old_string": "a", "new_string": "b"},
    "ListDir": {},
    "Glob": {"pattern": "*"},
    "Grep": {"pattern": "x"},
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("name", CALLS)
async def test_a_path_that_cannot_exist_is_an_error_that_says_what_was_expected(tmp_path, name, path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    workspace = Workspace(tmp_path)
    text, expected = path
    said = await error_text([*Files(workspace).tools(), *Search(workspace).tools()], name, path=text, **CALLS[name])

    assert expected in said
    assert len(said) < 500
    assert PYTHON_ERROR.isdisjoint(said.replace(":", " ").split())


PYTHON_ERROR = frozenset(
    [
        "OSError",
        "ValueError",
        "TypeError",
        "OverflowError",
        "RecursionError",
        "UnicodeEncodeError",
        "KeyError",
        "[Errno",
    ]
)
EXTREMES = {
    "integer": [10**30, -(10**30), 0, -1],
    "number": [1e308, -1e308, 0],
    "string": ["x" * 300, "\0", "\ud800", "x" * 100_000, "../" * 2_000, "~x", "", "\u202e", "{a,b}" * 400, "["],
    "boolean": [True],
}


@pytest.fixture
def every_tool(tmp_path):
    (tmp_path / "skills").mkdir()
    (tmp_path / "commands").mkdir()
    workspace = Workspace(tmp_path)
    return Registry(
        [
            *Files(workspace).tools(),
            *Search(workspace).tools(),
            *Shell(workspace, seconds=5).tools(),
            *Web().tools(),
            *Skills(tmp_path / "skills").tools(),
            *Control(commands=tmp_path / "commands").tools(),
        ]
    )


async def test_no_extreme_argument_answers_with_an_error_of_python(every_tool):
    faults = []
    for tool in every_tool:
        fields = tool.definition.parameters["properties"]
        for name, values in [
            (name, EXTREMES.get(field.get("type"), EXTREMES["integer"])) for name, field in fields.items()
        ]:
            for value in values:
                others = {each: "x" for each in tool.definition.parameters.get("required", ()) if each != name}
                said = await tool.call({**others, name: value})
                if said.is_error and PYTHON_ERROR.intersection(said.text.replace(":", " ").split()):
                    faults.append((tool.definition.name, name, repr(value)[:20], said.text[:100]))

    assert [] == faults


async def test_a_folder_of_any_size_is_listed_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr("fcshim.tools.builtin.files._MAX_SORTED", 20)
    monkeypatch.setattr("fcshim.tools.builtin.search.MAX_FILES", 20)
    for number in range(50):
        (tmp_path / f"{number:02}").touch()
    workspace = Workspace(tmp_path)

    assert 21 == len((await result_text(Files(workspace).tools(), "ListDir")).splitlines())
    assert 20 == len((await result_text(Search(workspace).tools(), "Glob", pattern="*")).splitlines())
