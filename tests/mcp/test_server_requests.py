"""Servers' requests to the model and to the user."""

import pytest

from fcshim.errors import UpstreamError
from fcshim.mcp.server_requests import MAX_SAMPLING_TOKENS, ElicitationForm, elicitation_callback, sampling_callback
from fcshim.messages import SystemMessage, TextPart, UserMessage
from fcshim.reply import Reply
from tests.mcp.server_programs import manager, server


async def asked_model(answer, **settings):
    async with manager(server(handshake=True), sampling=sampling_callback(answer), **settings) as servers:
        return await servers.call("f:ask_model", {"question": "What is 1 + 2?"})


async def test_a_server_asks_the_model():
    received = []

    async def ask(messages, most, server):
        received.append((messages, most, server))
        return Reply(text="3", stop_reason="max_tokens")

    result = await asked_model(ask)
    messages = (SystemMessage((TextPart("Be brief."),)), UserMessage((TextPart("What is 1 + 2?"),)))

    assert [(messages, MAX_SAMPLING_TOKENS, "f")] == received
    assert "3 (maxTokens)" == result.text


async def test_a_model_failure_is_an_error_for_the_server():
    async def ask(messages, most, server):
        raise UpstreamError("it broke")

    result = await asked_model(ask)

    assert result.is_error


async def test_without_callbacks_servers_get_no_answer():
    async with manager(server(handshake=True)) as servers:
        model = await servers.call("f:ask_model", {"question": "x"})
        user = await servers.call("f:ask_user", {"question": "x"})

    assert model.is_error
    assert user.is_error


@pytest.mark.parametrize(("given", "said"), [({"name": "Ada"}, "accept Ada"), (None, "decline ")])
async def test_a_server_asks_the_user(given, said):
    received = []

    async def ask(form):
        received.append(form)
        return given

    async with manager(server(handshake=True), elicitation=elicitation_callback(ask)) as servers:
        result = await servers.call("f:ask_user", {"question": "Who are you?"})
    (form,) = received

    assert isinstance(form, ElicitationForm)
    assert ("Who are you?", ["name"]) == (form.message, list(form.schema["properties"]))
    assert said == result.text
