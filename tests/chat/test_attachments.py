"""Files that a question names: what is sent, what is not, and the lines about them."""

import base64
import json

import pytest

from fcshim.chat.attachments import Attachments
from fcshim.client import Client
from fcshim.messages import MediaPart, TextPart, UserMessage
from fcshim.tools import Permissions, parse_rules
from tests.scripted import Script, scripted_upstream, text_reply

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def takes_images():
    return ""


async def takes_text():
    return "it takes only text"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    for name, data in {
        "here/a.py": b"x = 1\n",
        "here/with blank.txt": b"blank\n",
        "here/a.bin": b"\0\1",
        "here/picture.png": PNG,
        "here/.hidden": b"h",
        "outside.txt": b"secret",
    }.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "here" / "sub").mkdir()
    (tmp_path / "here" / "sub" / "b.md").write_text("# b")
    (tmp_path / "here" / "link.txt").symlink_to(tmp_path / "outside.txt")
    return tmp_path / "here"


def attachments(folder, *denied, images=takes_images):
    return Attachments(folder, Permissions(rules=parse_rules("deny", denied)), images)


async def attach(folder, text, *denied, images=takes_images):
    attached = await attachments(folder, *denied, images=images).attach(text)
    first, *rest = attached.content

    assert TextPart(text) == first

    return rest, list(attached.notes)


@pytest.mark.parametrize(
    ("text", "sent", "notes"),
    [
        ("what is @a.py", ["\n\nThe file a.py:\nx = 1\n\n(end of a.py)\n"], ["@a.py is sent: 1 line"]),
        ("(@a.py), please", ["a.py"], ["@a.py is sent: 1 line"]),
        ("is it @sub/b.md?", ["# b"], ["@sub/b.md is sent: 1 line"]),
        ('see @"with blank.txt".', ["blank"], ["@with blank.txt is sent: 1 line"]),
        ("list @sub", ["The folder sub:\nb.md  3"], ["@sub is sent: 1 line"]),
        ("@a.py and @a.py", ["x = 1"], ["@a.py is sent: 1 line"]),
        ("me@a.py", [], []),
        ("@dataclass and @no.py", [], ["there is no such file here, so it is only a word: @dataclass, @no.py"]),
        ("@a.bin", [], ["@a.bin is not sent: a.bin is not a text file."]),
    ],
)
async def test_what_is_sent_and_said(folder, text, sent, notes):
    parts, said = await attach(folder, text)

    assert notes == said
    assert len(sent) == len(parts)
    assert all(expected in part.text and part.document for expected, part in zip(sent, parts, strict=True))


@pytest.mark.security
@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("@../outside.txt", ()),
        ("@link.txt", ()),
        ("@/etc/passwd", ()),
        ("@~/", ()),
        ("@a.py", ("Read(a.py)",)),
        ("@sub/../a.py", ("Read(a.*)",)),
        ("@A.PY @./a.py", ("Read(a.py)",)),
        ("@sub", ("Read(sub/*)",)),
        ("@a.py", ("Read",)),
    ],
)
async def test_what_may_not_be_read_is_not_sent(folder, text, denied):
    parts, said = await attach(folder, text, *denied)

    assert [] == parts
    assert ("is not sent: " in " ".join(said)) or "no such file" in " ".join(said)


@pytest.mark.security
async def test_files_of_a_question_are_limited(folder):
    for number in range(20):
        (folder / f"{number}.txt").write_text("x" * 100_000)
    parts, said = await attach(folder, " ".join(f"@{number}.txt" for number in range(20)))

    assert 2 == len(parts)
    assert 10 == len(said)
    assert "@2.txt is not sent: the files of a question have 262,144 characters at most" == said[2]


async def test_a_picture_is_sent_where_the_model_takes_it(folder):
    sent = await attach(folder, "@picture.png", images=takes_images)
    kept = await attach(folder, "@picture.png", images=takes_text)

    assert ([MediaPart("image/png", data=base64.b64encode(PNG).decode())], ["@picture.png is sent: image/png"]) == sent
    assert ([], ["@picture.png is not sent: it takes only text"]) == kept


@pytest.mark.parametrize(
    ("begun", "paths"),
    [
        ("", ["a.bin", "a.py", "link.txt", "picture.png", "sub/", "with blank.txt"]),
        ("a.", ["a.bin", "a.py"]),
        (".h", [".hidden"]),
        ("sub/", ["sub/b.md"]),
        ("./su", ["./sub/"]),
        ("../", []),
        ("/", []),
        ("no/", []),
    ],
)
def test_completion(folder, begun, paths):
    assert paths == attachments(folder).complete(begun)


def test_completion_does_not_name_what_may_not_be_read(folder):
    assert ["a.bin"] == attachments(folder, "Read(*.py)").complete("a.")


@pytest.mark.parametrize(
    ("props", "refusal"),
    [
        ({"modalities": {"vision": False, "audio": False}}, "the server says that this model takes only text"),
        ({"modalities": {"vision": True}}, ""),
        ({}, ""),
    ],
)
async def test_the_server_says_whether_a_model_takes_pictures(props, refusal):
    pages = {"/props?model=m": Script((json.dumps(props).encode(),))}
    async with scripted_upstream(pages=pages) as upstream, Client(upstream.url, model="m") as client:
        found = await client.image_refusal()

    assert refusal == found


async def test_a_profile_without_pictures_is_named():
    async with Client("http://127.0.0.1:1", model="m", profile="text-only") as client:
        assert "requests to m are written for a model that takes only text (profile text-only)" == (
            await client.image_refusal()
        )


async def test_a_picture_that_the_endpoint_refuses_is_known_afterwards():
    """The message is llama-server's, for a model without a projector."""
    message = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    body = json.dumps({"error": {"code": 500, "message": message, "type": "server_error"}}).encode()
    asked = UserMessage((TextPart("what is it?"), MediaPart("image/png", data="AAAA")))
    async with (
        scripted_upstream(Script((body,), 500), text_reply("I see nothing."), pages={}) as upstream,
        Client(upstream.url, model="m") as client,
    ):
        before = await client.image_refusal()
        reply = await client.complete((asked,))
        after = await client.image_refusal()

    assert ("", "I see nothing.") == (before, reply.text)
    assert "the endpoint refused pictures for this model, and gets a line of text in their place" == after
