"""The history after a turn, whether complete or interrupted."""

import contextlib

import pytest

from fcshim.chat.conversation import ChatConversation
from fcshim.chat.edits import EditJournal, recorded
from fcshim.chat.session import ChatSession
from fcshim.client import Client
from fcshim.errors import ModelOutputError, RequestError, UpstreamError
from fcshim.events import Text
from fcshim.messages import AssistantMessage, TextPart, ToolMessage, UserMessage
from fcshim.tools import CallFinished, Permissions, Registry
from fcshim.tools.builtin import Files, Workspace
from tests.scripted import CUT, HANG, ROLE, Script, scripted_upstream, text_chunk, text_reply
from tests.server.mcp_proxy import call_text


def shout(word: str) -> str:
    """Say it loud."""
    return word.upper()


SHOUT = call_text("shout", word="hey")


@contextlib.asynccontextmanager
async def talking(*scripts, max_rounds=4):
    async with scripted_upstream(*scripts) as upstream, Client(upstream.url, model="m") as client:
        session = ChatSession("s", model="m")
        yield (
            ChatConversation(client, Registry([shout]), Permissions("allow"), session, max_rounds=max_rounds),
            upstream,
        )


async def turn_events(conversation, text):
    return [event async for event in conversation.send(text)]


def kinds(conversation):
    return [type(message) for message in conversation.session.messages]


async def test_a_turn_adds_question_calls_results_and_answer():
    async with talking(text_reply(SHOUT), text_reply("HEY it is.")) as (conversation, _):
        await turn_events(conversation, "Hi")

    assert [UserMessage, AssistantMessage, ToolMessage, AssistantMessage] == kinds(conversation)
    assert (TextPart("HEY"),) == conversation.session.messages[2].content


async def test_an_interrupted_turn_keeps_the_received_text():
    async with talking(Script((ROLE, text_chunk("Once"), HANG))) as (conversation, upstream):
        async with contextlib.aclosing(conversation.send("Hi")) as events:
            async for event in events:
                if event == Text("Once"):
                    break
        await upstream.client_left.wait()

    assert (UserMessage((TextPart("Hi"),)), AssistantMessage((TextPart("Once"),))) == conversation.session.messages


async def test_a_question_without_any_reply_is_removed():
    async with talking(Script((b"{}",), status=500)) as (conversation, _):
        with pytest.raises(UpstreamError):
            await turn_events(conversation, "Hi")

    assert () == conversation.session.messages


async def test_complete_rounds_stay_when_a_later_one_fails():
    async with talking(text_reply(SHOUT), Script((ROLE, CUT))) as (conversation, _):
        with pytest.raises(UpstreamError):
            await turn_events(conversation, "Hi")

    assert [UserMessage, AssistantMessage, ToolMessage] == kinds(conversation)


async def test_a_model_that_never_stops_calling_is_stopped():
    async with talking(text_reply(SHOUT), text_reply(SHOUT), max_rounds=2) as (conversation, _):
        with pytest.raises(ModelOutputError, match="did not answer: it called tools"):
            await turn_events(conversation, "Hi")

    assert [UserMessage, AssistantMessage, ToolMessage] == kinds(conversation)


async def test_the_model_may_change_between_turns():
    async with talking(text_reply("a"), text_reply("b")) as (conversation, upstream):
        await turn_events(conversation, "Hi")
        conversation.session.model = "other"
        await turn_events(conversation, "Ho")

    assert ["m", "other"] == [asked.body["model"] for asked in upstream.requests]


async def test_undo_takes_back_a_whole_turn_of_several_messages():
    given = (UserMessage((TextPart("a"),)), AssistantMessage((TextPart("b"),)), UserMessage((TextPart("c"),)))
    async with talking(text_reply("Hi."), text_reply(SHOUT), text_reply("So.")) as (conversation, _):
        await turn_events(conversation, "First")
        await turn_events(conversation, given)
        undone = conversation.undo()

    assert 6 == len(undone.messages)
    assert [UserMessage, AssistantMessage] == kinds(conversation)
    assert 2 == len(conversation.undo().messages)
    with pytest.raises(RequestError, match="no turn to take back"):
        conversation.undo()


async def test_a_turn_whose_calls_changed_files_stays_although_it_was_interrupted(tmp_path):
    """Else nothing could put the files back."""
    (tmp_path / "a.txt").write_text("old")
    journal, workspace = EditJournal(), Workspace(tmp_path)
    tools = recorded(Files(workspace).tools(), workspace, journal)
    calls = call_text("Write", path="a.txt", content="new") + "\n" + call_text("shout", word="hey")
    async with scripted_upstream(text_reply(calls)) as upstream, Client(upstream.url, model="m") as client:
        session = ChatSession("s", model="m")
        conversation = ChatConversation(
            client, Registry([*tools, shout]), Permissions("allow"), session, max_rounds=2, journal=journal
        )
        async with contextlib.aclosing(conversation.send("Hi")) as events:
            async for event in events:
                if isinstance(event, CallFinished) and event.message.name == "Write":
                    break
        undone = conversation.undo()

    assert ["a.txt"] == list(map(str, undone.edits))
    assert () == session.messages


async def test_a_turn_before_a_summary_has_no_edits_of_other_turns(tmp_path):
    journal = EditJournal()
    for name in "abc":
        journal.begin_turn()
        journal.add(tmp_path / name, b"", b"x", name)
    journal.keep_turns(1)

    assert ["c"] == list(map(str, journal.drop_turn()))
    assert [] == journal.drop_turn()


async def test_another_model_may_write_the_summary():
    scripts = (text_reply("Hello."), text_reply("He said Hi."))
    async with scripted_upstream(*scripts) as upstream, Client(upstream.url, model="m") as client:
        settings = {"max_rounds": 4, "background_model": "small"}
        session = ChatSession("s", model="m")
        conversation = ChatConversation(client, Registry([shout]), Permissions("allow"), session, **settings)
        await turn_events(conversation, "Hi")
        done = await conversation.compact(0)

    assert "He said Hi." == done.summary
    assert ["m", "small"] == [request.body["model"] for request in upstream.requests if request.body]
