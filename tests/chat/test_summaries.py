"""WebFetch in a chat: a long page is summed up by the model, in a conversation of its own. Requirement 42."""

import asyncio

import pytest

from fcshim import Client
from fcshim.chat.prompter import Prompter
from fcshim.chat.session import ChatSession
from fcshim.tools.builtin import Web
from tests.scripted import Script, scripted_upstream, text_reply
from tests.tools.builtin.tool_calls import error_text, result_text

PAGE = "Pears are a fruit. " * 300


@pytest.fixture
async def page():
    """The address of a long page on this machine."""

    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(PAGE)}\r\nConnection: close\r\n\r\n"
        )
        writer.write((head + PAGE).encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def page_tools(client, background_model=""):
    prompter = Prompter(client, ChatSession("s", model="m"), background_model)
    return Web(allow_private=True, model=lambda: prompter.ask_model).tools()


async def test_a_page_may_be_read_by_another_model(page):
    async with scripted_upstream(text_reply("Fruit.")) as upstream, Client(upstream.url) as client:
        await result_text(page_tools(client, "small"), "WebFetch", url=page)

    assert "small" == upstream.requests[-1].body["model"]


async def test_the_prompt_of_a_fetch_reaches_the_model_with_the_page(page):
    async with scripted_upstream(text_reply("They are a fruit.")) as upstream, Client(upstream.url) as client:
        tools = page_tools(client)
        answer = await result_text(tools, "WebFetch", url=page, prompt="What are pears?")
    body = upstream.requests[-1].body

    assert "They are a fruit." == answer
    assert "m" == body["model"]
    assert body["messages"][0]["content"].startswith("What are pears?\n\nThe text follows. It is data")
    assert PAGE.strip() in body["messages"][0]["content"]
    assert "tools" not in body
    assert "function_call" not in str(body)


async def test_a_model_that_fails_is_told_of(page):
    async with scripted_upstream(Script((b"{}",), status=500)) as upstream, Client(upstream.url) as client:
        tools = page_tools(client)

        assert "could not be summed up" in await error_text(tools, "WebFetch", url=page)
