"""What is typed at the prompt, through a pseudo-terminal: several lines, pastes, completion, files."""

import pytest

from tests.chat.pseudo_terminal import CTRL_C, ENTER
from tests.chat.test_attachments import PNG
from tests.chat.test_terminal import PROMPT, chatting
from tests.scripted import Script
from tests.server.mcp_proxy import prompts

ALT_ENTER = "\x1b\r"
TAB = "\t"


def paste(text):
    return f"\x1b[200~{text}\x1b[201~"


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        (f"one{ALT_ENTER}two", "one\ntwo"),
        (f"one\\{ENTER}two", "one\ntwo"),
        (paste("one\n\n  two\n"), "one\n\n  two"),
        (paste("a\r\nb"), "a\nb"),
        (f'"""{ENTER}one{ENTER}{ENTER}two{ENTER}"""', "one\n\ntwo"),
        (f"a \\ b{ALT_ENTER}c", "a \\ b\nc"),
        ('a """ b', 'a """ b'),
    ],
)
async def test_a_question_may_have_several_lines(typed, sent, tmp_path):
    async with chatting(tmp_path, "Ok.") as (screen, upstream):
        screen.enter(typed)
        await screen.expect("Ok.")

    assert [f"user: {sent}"] == prompts(upstream)


async def test_a_paste_is_shown_in_rows_and_sent_only_by_enter(tmp_path):
    async with chatting(tmp_path, "Ok.") as (screen, upstream):
        screen.type(paste("first\nsecond\n/quit\n"))
        await screen.expect("/quit")
        rows = screen.rows
        screen.type(CTRL_C)
        await screen.expect(PROMPT)
        screen.enter("Hi")
        await screen.expect("Ok.")

    at = rows.index("› first")
    assert ["› first", "  second", "  /quit"] == rows[at : at + 3]
    assert ["user: Hi"] == prompts(upstream)


async def test_a_file_is_completed_and_sent_with_the_question(tmp_path):
    (tmp_path / "notes.txt").write_text("It is 42.\n")
    (tmp_path / "deep").mkdir()
    async with chatting(tmp_path, "Ok.", options=["--root", str(tmp_path)]) as (screen, upstream):
        screen.type("what says @no" + TAB)
        await screen.expect("notes.txt")
        screen.enter(" here?")
        await screen.expect("@notes.txt is sent: 1 line")
        await screen.expect("Ok.")

    assert prompts(upstream)[0].endswith(
        "user: what says @notes.txt here?\n\nThe file notes.txt:\nIt is 42.\n\n(end of notes.txt)\n"
    )


async def test_commands_are_completed(tmp_path):
    async with chatting(tmp_path) as (screen, _):
        screen.type("/to" + TAB)
        await screen.expect("/tools")
        screen.type(ENTER)
        await screen.expect("There are no tools")


async def test_a_picture_that_the_model_cannot_see_is_not_sent(tmp_path):
    (tmp_path / "picture.png").write_bytes(PNG)
    props = Script((b'{"modalities": {"vision": false}}',))
    options = ["--root", str(tmp_path)]
    async with chatting(tmp_path, "Ok.", options=options, pages={"/props?model=m": props}) as (screen, upstream):
        screen.enter("what is on @picture.png")
        await screen.expect("@picture.png is not sent: the server says that this model takes only text")
        await screen.expect("Ok.")

    assert "image" not in str(upstream.requests[0].body["messages"])


async def test_a_picture_that_the_endpoint_refuses_is_said_after_the_answer(tmp_path):
    """The message is llama-server's, for a model without a projector."""
    (tmp_path / "picture.png").write_bytes(PNG)
    refused = Script((b'{"error": {"code": 500, "message": "image input is not supported - hint: mmproj"}}',), 500)
    async with chatting(tmp_path, refused, "I see nothing.", options=["--root", str(tmp_path)], pages={}) as (
        screen,
        upstream,
    ):
        screen.enter("what is on @picture.png")
        await screen.expect("@picture.png is sent: image/png")
        await screen.expect("I see nothing.")
        await screen.expect("the picture did not reach the model: the endpoint refused pictures for this model")

    assert "image_url" in str(upstream.requests[0].body["messages"])
    assert "image_url" not in str(upstream.requests[1].body["messages"])
