"""Attacks by a session's file: its id, its address, its place; and who can read what the chat writes."""

import asyncio
import json
import os
import sys

import pytest

from fcshim.chat.session import ChatSession, SessionStore, make_private_file, make_private_folder
from fcshim.errors import ConfigError
from tests.chat.pseudo_terminal import CTRL_D, terminal
from tests.scripted import scripted_upstream, text_reply

pytestmark = pytest.mark.security

KEY = "the-users-own-key"


def crafted(folder, name="evil.json", **fields):
    file = folder / name
    file.write_text(json.dumps({"id": "evil", **fields}))
    return file


async def chat(folder, *options, stdin=b""):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fcshim", "chat", *options),
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "FCSHIM_UPSTREAM_KEY": KEY},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    out, err = await asyncio.wait_for(process.communicate(stdin), 60)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "/tmp/evil",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "a.b",
        ".hidden",
        "-x",
        "a\nb",
        "a\0b",
        "x" * 101,
        "é",
        "a b",
    ],
)
def test_an_id_that_leads_elsewhere_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match="not the id of a session"):
        SessionStore(tmp_path / "sessions").load(str(crafted(tmp_path, id=name)))


@pytest.mark.parametrize("name", ["../secret", "a/b", "..", "/etc/passwd"])
def test_a_name_that_leads_elsewhere_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=r"expected one, or a file that ends in \.json"):
        SessionStore(tmp_path).load(name)


@pytest.mark.engine
async def test_the_address_of_a_file_gets_neither_the_key_nor_the_conversation(tmp_path):
    async with scripted_upstream(text_reply("mine")) as attacker:
        file = crafted(tmp_path, url=attacker.url, messages=[])
        code, out, err = await chat(tmp_path, "--resume", str(file), "-p", "hello")

        assert 2 == code
        assert "" == out
        assert f"the session was with {attacker.url}; to use it, name it: fcshim chat" in err
        assert [] == attacker.requests


@pytest.mark.engine
@pytest.mark.parametrize(("answer", "asked"), [("n", 0), ("", 0), ("y", 1)])
async def test_at_a_terminal_the_user_is_asked_about_the_address(tmp_path, answer, asked):
    async with scripted_upstream(text_reply("Hi."), pages={}) as other:
        file = crafted(tmp_path, url=other.url, model="m\x1b[2J")
        async with terminal("chat", "--resume", str(file), state=tmp_path) as screen:
            await screen.expect(f"The session was with {other.url}. Send the conversation there? [y]es, [n]o: ")
            screen.enter(answer)
            if asked:
                await screen.expect("›")
                screen.enter("hello")
                await screen.expect("Hi.")
                await screen.expect("›")
                screen.type(CTRL_D)
            code = await screen.wait_exit()

        assert (0 if asked else 2) == code
        assert asked == len([each for each in other.requests if each.path.endswith("/chat/completions")])


@pytest.mark.engine
async def test_the_address_of_the_command_line_takes_precedence(tmp_path):
    async with scripted_upstream(text_reply("mine")) as attacker, scripted_upstream(text_reply("yours"), pages={}) as own:
        file = crafted(tmp_path, url=attacker.url, model="m")
        code, out, _ = await chat(tmp_path, own.url, "--resume", str(file), "-p", "hello")

        assert (0, "yours\n") == (code, out)
        assert [] == attacker.requests


@pytest.mark.engine
async def test_a_file_from_elsewhere_replaces_no_saved_session(tmp_path):
    sessions = tmp_path / "state" / "fcshim" / "sessions"
    kept = SessionStore(sessions).save(ChatSession("kept", "http://own/"))
    before = kept.read_bytes()
    async with scripted_upstream(text_reply("yours"), pages={}) as own:
        file = crafted(tmp_path, id="kept", model="m")
        code, _, _ = await chat(tmp_path, own.url, "--resume", str(file), "-p", "hello")

    assert 0 == code
    assert before == kept.read_bytes()
    assert 2 == len(list(sessions.iterdir()))
    assert 0o700 == sessions.stat().st_mode & 0o777
    assert {0o600} == {each.stat().st_mode & 0o777 for each in sessions.iterdir()}


def test_what_the_chat_writes_is_for_its_owner_only(tmp_path):
    folder, file = tmp_path / "fcshim", tmp_path / "fcshim" / "history"
    before = os.umask(0)
    try:
        make_private_folder(folder)
        make_private_file(file)
        saved = SessionStore(folder / "sessions").save(ChatSession("a"))
    finally:
        os.umask(before)

    assert [0o700, 0o600, 0o700, 0o600] == [
        each.stat().st_mode & 0o777 for each in (folder, file, folder / "sessions", saved)
    ]


def test_an_existing_file_that_others_can_read_is_closed(tmp_path):
    folder, file = tmp_path / "fcshim", tmp_path / "fcshim" / "history"
    folder.mkdir(mode=0o755)
    file.write_text("+typed")
    file.chmod(0o644)
    make_private_folder(folder)
    make_private_file(file)

    assert "+typed" == file.read_text()
    assert (0o700, 0o600) == (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777)


def test_a_link_in_a_shared_folder_is_not_written_through(tmp_path):
    """The name of the temporary file was known: `.kept.json.PID`."""
    target = tmp_path / "victim"
    target.write_text("old")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / f".kept.json.{os.getpid()}").symlink_to(target)
    SessionStore(tmp_path / "sessions").save(ChatSession("one"), shared / "kept.json")

    assert "old" == target.read_text()
