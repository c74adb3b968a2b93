"""Sessions saved in files."""

import os

import pytest

from fcshim.chat.session import ChatSession, SessionStore, default_session_folder
from fcshim.errors import ConfigError
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

MESSAGES = (
    SystemMessage((TextPart("Be brief."),)),
    UserMessage((TextPart("Hi"), MediaPart("image/png", data="x", raw={"type": "image"}))),
    AssistantMessage((TextPart("Ho"),), (ToolCall("1", "f", "{}"),), "thought", "proof"),
    ToolMessage("1", (TextPart("done"),), "f", is_error=True),
)


def test_a_session_is_loaded_as_it_was_saved(tmp_path):
    store = SessionStore(tmp_path / "sessions")
    session = ChatSession("one", "http://h/", "m", MESSAGES)
    store.save(session)

    assert session == store.load("one")
    assert ["one.json"] == [file.name for file in (tmp_path / "sessions").iterdir()]


def test_without_a_name_the_last_session_is_loaded(tmp_path):
    store = SessionStore(tmp_path)
    for age, name in ((2, "a"), (1, "c"), (3, "b")):
        os.utime(store.save(ChatSession(name)), (1_000 - age, 1_000 - age))

    assert "c" == store.load().id


def test_a_session_can_be_saved_to_a_given_file(tmp_path):
    store = SessionStore(tmp_path / "sessions")
    file = store.save(ChatSession("one"), tmp_path / "folder" / "kept.json")

    assert "one" == store.load(str(file)).id
    assert 0o600 == file.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[]", "not a session"), (b"\xff", "not a session"), (b'{"id": "a", "x": ' + b"[" * 100_000, "not a session")],
)
def test_a_file_that_is_no_session_is_named(content, message, tmp_path):
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"x.json: {message}"):
        SessionStore(tmp_path).load(str(file))


def test_the_error_for_an_unknown_session_lists_the_known_ones(tmp_path):
    store = SessionStore(tmp_path)
    with pytest.raises(ConfigError, match="there is no session to resume"):
        store.load()
    store.save(ChatSession("one"))
    with pytest.raises(ConfigError, match=r"there is no session 'two' \(the last ones are: one\)"):
        store.load("two")


def test_the_default_folder_is_in_the_users_state(tmp_path):
    assert tmp_path / "fcshim" / "sessions" == default_session_folder({"XDG_STATE_HOME": str(tmp_path)})
