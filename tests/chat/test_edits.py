"""What a turn changed in files, and putting it back."""

import os
import tracemalloc

import pytest

from fcshim.chat.edits import EditJournal, recorded, restore
from fcshim.tools.builtin import Files, Workspace


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\n\xff")
    (tmp_path / "b.txt").write_text("one")
    return tmp_path


@pytest.fixture
def journal():
    return EditJournal()


@pytest.fixture
def call(folder, journal):
    workspace = Workspace(folder)
    tools = {tool.definition.name: tool for tool in recorded(Files(workspace).tools(), workspace, journal)}

    async def run(name, **arguments):
        return await tools[name].call(arguments)

    return run


async def test_a_turn_s_changes_are_put_back(call, journal, folder):
    journal.begin_turn()
    await call("Write", path="b.txt", content="kept")
    journal.begin_turn()
    await call("Write", path="a.txt", content="two")
    await call("Edit", path="a.txt", old_string="two", new_string="three")
    await call("Write", path="new/c.txt", content="new")
    await call("Read", path="a.txt")
    edits = journal.drop_turn()
    said = restore(edits)

    assert ["a.txt", "c.txt"] == [edit.path.name for edit in edits]
    assert ["a.txt is as it was", "new/c.txt is removed again"] == said
    assert b"one\r\n\xff" == (folder / "a.txt").read_bytes()
    assert not (folder / "new" / "c.txt").exists()
    assert "kept" == (folder / "b.txt").read_text()


async def test_what_was_changed_since_stays(call, journal, folder):
    await call("Write", path="a.txt", content="two")
    await call("Write", path="new.txt", content="two")
    (folder / "a.txt").write_text("mine")
    (folder / "new.txt").unlink()
    said = restore(journal.drop_turn())

    assert ["a.txt stays: it was changed since", "new.txt stays: it was changed since"] == said
    assert "mine" == (folder / "a.txt").read_text()


async def test_a_call_that_fails_or_changes_nothing_is_no_change(call, journal):
    await call("Edit", path="b.txt", old_string="not there", new_string="x")
    await call("Write", path="b.txt", content="one")
    await call("Write", path="../outside.txt", content="x")
    await call("Write", path=".", content="x")

    assert [] == journal.drop_turn()


async def test_old_contents_are_forgotten_beyond_the_limit(folder):
    journal = EditJournal(max_kept=10)
    file = folder / "b.txt"
    journal.begin_turn()
    journal.add(file, b"12345", b"67890")
    journal.begin_turn()
    journal.add(folder / "c.txt", b"1", b"2")
    journal.drop_turn()
    (old,) = journal.drop_turn()
    file.write_bytes(b"67890")

    assert [f"{file} stays: its former content was too large to keep"] == restore([old])
    assert b"67890" == file.read_bytes()


@pytest.mark.security
async def test_a_file_too_large_to_keep_is_replaced_without_reading_it(call, journal, folder):
    (folder / "big").touch()
    os.truncate(folder / "big", 2**30)
    journal.begin_turn()
    tracemalloc.start()
    await call("Write", path="big", content="small")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [] == journal.drop_turn()
    assert "small" == (folder / "big").read_text()
    assert peak < 2**20


def test_without_turns_there_is_nothing_to_drop(journal):
    assert [] == journal.drop_turn()
