"""Names in a question that would send what the user did not mean, stop the chat or fill its memory."""

import asyncio
import base64
import os
import socket
import tracemalloc

import pytest

from fcshim.chat.attachments import Attachments
from fcshim.messages import MediaPart, TextPart
from fcshim.tools import Permissions, parse_rules

pytestmark = pytest.mark.security

SECRET = "s3cret"


async def takes_images():
    return ""


@pytest.fixture
def folder(tmp_path):
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (here / "private").mkdir()
    (tmp_path / "outside.txt").write_text(SECRET)
    (tmp_path / "outside.png").write_text(SECRET)
    (here / "private" / "key").write_text(SECRET)
    for name, target in {
        "link": tmp_path / "outside.txt",
        "up": tmp_path,
        "picture.png": tmp_path / "outside.png",
        "loop": here / "loop",
        "zero": "/dev/zero",
        "zero.png": "/dev/zero",
        "memory": "/proc/self/mem",
        "open.txt": here / "private" / "key",
        "open.png": here / "private" / "key",
    }.items():
        (here / name).symlink_to(target)
    os.mkfifo(here / "pipe")
    os.mkfifo(here / "pipe.png")
    for name in ("big", "big.png"):
        (here / name).touch()
        os.truncate(here / name, 2**30)
    (here / "\x1b[2Jname").write_text("x")
    return here


NAMES = [
    *(
        "../outside.txt",
        "sub/../../outside.txt",
        "./../outside.txt",
        "link",
        "up/outside.txt",
        "..",
        "up",
        "/",
        "/etc/hosts",
    ),
    *("../outside.png", "picture.png", "up/outside.png"),
    *("~", "~root/.bashrc", "~nobody-of-this-name/x", "file:///etc/hosts", "..%2foutside.txt", "..\\outside.txt"),
    *("pipe", "pipe.png", "zero", "zero.png", "memory", "loop", "loop/a", "socket", "big", "big.png"),
    *("private/key", "open.txt", "open.png", "sub/../private/key", "./private//key", "PRIVATE/KEY"),
    *("x" * 300, "x/" * 3_000, "\0", "\ud800", "sub/\0"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("written", ["@{}", '@"{}"', "see (@{})."])
async def test_only_what_the_folder_has_and_the_rules_permit_is_sent(folder, name, written, monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(folder)  # the path of a socket is short
        listener.bind("socket")
        attachments = Attachments(folder, Permissions(rules=parse_rules("deny", ["Read(private/**)"])), takes_images)
        tracemalloc.start()
        async with asyncio.timeout(20):
            attached = await attachments.attach(written.format(name))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    sent = "".join(
        part.text if isinstance(part, TextPart) else str(base64.b64decode(part.data)) for part in attached.content
    )

    assert SECRET not in sent
    assert not any(isinstance(part, MediaPart) for part in attached.content)
    assert len(attached.content) == 1
    assert peak < 20 * 2**20


async def test_a_name_that_would_paint_the_screen_is_sent_by_its_name_only(folder):
    attached = await Attachments(folder, Permissions(), takes_images).attach('@"\x1b[2Jname"')

    assert ["@\x1b[2Jname is sent: 1 line"] == list(attached.notes)  # the view makes it safe, like all notes


async def test_many_names_send_ten_files(folder):
    for number in range(50):
        (folder / f"f{number}").write_text("x")
    attached = await Attachments(folder, Permissions(), takes_images).attach(
        " ".join(f"@f{number}" for number in range(50))
    )

    assert 11 == len(attached.content)


async def test_a_long_question_is_searched_once(folder):
    text = ' @"' * 100_000 + " @" * 100_000
    async with asyncio.timeout(20):
        attached = await Attachments(folder, Permissions(), takes_images).attach(text)

    assert 1 == len(attached.content)
