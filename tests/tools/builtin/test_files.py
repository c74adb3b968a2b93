"""Read, Write, Edit, ListDir. Requirement 40."""

import base64
import re

import pytest

from fcshim.messages import MediaPart
from fcshim.tools.builtin import Files, Workspace
from tests.tools.builtin.tool_calls import call, error_text, result_text


@pytest.fixture
def tools(tmp_path):
    return Files(Workspace(tmp_path)).tools()


def test_the_tools_have_the_required_parameters(tools):
    asked = {
        "Read": ["path", "offset", "limit", "column"],
        "Write": ["path", "content"],
        "Edit": ["path", "old_string", "new_string", "replace_all"],
        "ListDir": ["path"],
    }

    assert asked == {tool.definition.name: list(tool.definition.parameters["properties"]) for tool in tools}
    assert {"Read": "safe", "Write": "edit", "Edit": "edit", "ListDir": "safe"} == {
        tool.definition.name: tool.traits.sensitivity for tool in tools
    }


async def test_a_file_is_read_as_it_is(tools, tmp_path):
    (tmp_path / "a").write_bytes("one\r\ntwo ü\n".encode())

    assert "one\r\ntwo ü\n" == await result_text(tools, "Read", path="a")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"offset": 2}, "2\n3\n4\n"),
        ({"limit": 2}, "1\n2\n"),
        ({"offset": 2, "limit": 1}, "2\n"),
        ({"offset": 0, "limit": 1}, "1\n"),
        ({"offset": 9}, "(a has no line 9)"),
    ],
)
async def test_a_part_of_a_file_can_be_read(tools, tmp_path, part, expected):
    (tmp_path / "a").write_text("1\n2\n3\n4\n")

    assert expected == await result_text(tools, "Read", path="a", **part)


async def test_a_read_is_truncated_after_a_whole_line(tools, tmp_path):
    (tmp_path / "a").write_text("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 2_000)
    text = await result_text(tools, "Read", path="a")

    assert text.endswith("y\n(truncated after line 1310; read on with offset 1311)")
    assert len(text) < 128 * 1024 + 100


async def read_in_pieces(tools, limit: int) -> list[str]:
    """Read a file as the hints say; return the pieces without them."""
    pieces: list[str] = []
    part = {}
    while True:
        text = await result_text(tools, "Read", path="a", **part)
        hint = HINT.search(text)
        pieces.append(text[: hint.start()] if hint else text)
        assert len(pieces[-1]) <= limit
        if hint is None:
            return pieces
        part = {name: int(value) for name, value in hint.groupdict().items() if value}


HINT = re.compile(r"\n?\(truncated after .*; read on with offset (?P<offset>\d+)(?: and column (?P<column>\d+))?\)\Z")
CONTENTS = {
    "short lines": "".join(f"line {number} ü\n" for number in range(30_000)),
    "one long line": "ü€x" * 150_000,
    "long lines": ("x" * 200_000 + "\n") * 3 + "end",
    "a long line among short ones": "a\n" * 1_000 + "é" * 300_000 + "\r\n" + "b\r\n" * 1_000,
    "exact": ("x" * (128 * 1024 - 1) + "\n") * 3,
    "empty lines": "\n" * 300_000,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("limit", [128 * 1024, 48 * 1024])
async def test_the_hints_lead_through_all_of_a_file(tmp_path, content, limit):
    (tmp_path / "a").write_bytes(content.encode())
    tools = Files(Workspace(tmp_path), read_limit=limit).tools()
    text = "".join(await read_in_pieces(tools, limit))

    # The hint after a part of a line begins with a line feed of its own, as does one after a whole line.
    assert content.replace("\n", "") == text.replace("\n", "")


async def test_a_part_of_a_line_can_be_read(tools, tmp_path):
    (tmp_path / "a").write_text("1\n" + "abc" * 100_000 + "\n3\n")

    assert "bc\n3\n" == await result_text(tools, "Read", path="a", offset=2, column=299_999)
    assert "abc\n" == await result_text(tools, "Read", path="a", offset=2, column=299_998, limit=1)
    assert "a: line 2 ends at column 300001." == await error_text(tools, "Read", path="a", offset=2, column=400_000)
    assert "a: line 1 ends at column 2." == await error_text(tools, "Read", path="a", column=7)
    assert "(a has no column 9 in line 4)" == await result_text(tools, "Read", path="a", offset=4, column=9)


async def test_a_file_of_exactly_the_limit_is_not_truncated(tools, tmp_path):
    (tmp_path / "a").write_text("x" * (128 * 1024 - 1) + "\n")

    assert 128 * 1024 == len(await result_text(tools, "Read", path="a"))


async def test_a_file_beyond_10_megabytes_is_read_in_parts(tools, tmp_path):
    (tmp_path / "a").write_text("line\n" * 2_200_000)

    assert "read a part of it with offset and limit" in await error_text(tools, "Read", path="a")
    assert "line\n" == await result_text(tools, "Read", path="a", offset=2_000_000, limit=1)


async def test_a_picture_is_shown(tools, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    result = await call(tools, "Read", path="a.png")

    assert (MediaPart("image/png", data=base64.b64encode(b"\x89PNG").decode()),) == result.content


@pytest.mark.parametrize(
    ("path", "fault"),
    [("b", "There is no file b."), ("sub", "sub is a folder"), ("bin", "not a text file"), ("../x", "outside")],
)
async def test_an_unreadable_file_is_an_error_for_the_model(tools, tmp_path, path, fault):
    (tmp_path / "sub").mkdir()
    (tmp_path / "bin").write_bytes(b"a\0b")

    assert fault in await error_text(tools, "Read", path=path)


async def test_a_file_is_written_with_its_folders(tools, tmp_path):
    said_ = await result_text(tools, "Write", path="x/y/a.txt", content="ü\n")

    assert "Created x/y/a.txt (2 characters)." == said_
    assert "ü\n".encode() == (tmp_path / "x/y/a.txt").read_bytes()
    assert "Replaced x/y/a.txt" in await result_text(tools, "Write", path="x/y/a.txt", content="")
    assert [tmp_path / "x/y/a.txt"] == list((tmp_path / "x/y").iterdir())


async def test_writing_keeps_the_permissions(tools, tmp_path):
    file = tmp_path / "run.sh"
    file.write_text("old")
    file.chmod(0o755)
    await result_text(tools, "Write", path="run.sh", content="new")

    assert 0o755 == file.stat().st_mode & 0o777


async def test_writing_outside_the_workspace_is_refused(tools, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path.parent / "outside")

    assert "outside the workspace" in await error_text(tools, "Write", path="link", content="x")
    assert "is a folder" in await error_text(tools, "Write", path=".", content="x")
    assert not (tmp_path.parent / "outside").exists()


async def test_an_edit_replaces_exactly(tools, tmp_path):
    file = tmp_path / "a"
    file.write_text("one\ntwo\none\n")

    assert "Replaced 1 place in a." == await result_text(tools, "Edit", path="a", old_string="two\n", new_string="2\n")
    assert "one\n2\none\n" == file.read_text()
    assert "2 times" in await error_text(tools, "Edit", path="a", old_string="one", new_string="1")
    assert "Replaced 2 places" in await result_text(
        tools, "Edit", path="a", old_string="one", new_string="1", replace_all=True
    )
    assert "1\n2\n1\n" == file.read_text()


@pytest.mark.parametrize(
    ("old", "new", "fault"), [("", "x", "is empty"), ("a", "a", "are the same"), ("zzz", "x", "is not in a")]
)
async def test_an_edit_that_is_not_exact_changes_nothing(tools, tmp_path, old, new, fault):
    (tmp_path / "a").write_text("a b")

    assert fault in await error_text(tools, "Edit", path="a", old_string=old, new_string=new)
    assert "a b" == (tmp_path / "a").read_text()


async def test_an_edit_keeps_carriage_returns(tools, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    await result_text(tools, "Edit", path="a", old_string="one\ntwo", new_string="1\n2")

    assert b"1\r\n2\r\n" == (tmp_path / "a").read_bytes()


async def test_a_binary_file_is_not_edited(tools, tmp_path):
    (tmp_path / "a").write_bytes(b"\xff")

    assert "not UTF-8" in await error_text(tools, "Edit", path="a", old_string="a", new_string="b")


async def test_a_folder_is_listed(tools, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("12345")
    (tmp_path / "c").symlink_to(tmp_path / "nothing")

    assert "b/\na  5\nc  (broken link)" == await result_text(tools, "ListDir", path=".")
    assert "(empty)" == await result_text(tools, "ListDir", path="b")
    assert "a is not a folder" in await error_text(tools, "ListDir", path="a")


async def test_a_long_listing_is_truncated(tools, tmp_path):
    for number in range(1_005):
        (tmp_path / f"{number:04}").touch()

    assert (await result_text(tools, "ListDir")).endswith("\n(5 more)")
