from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage

from fcshim.demo.serving import serve_proxy
from fcshim.demo.tool_client import ToolCallingClient
from tests.scripted import scripted_upstream, text_reply


def message(name: str) -> ChatCompletionMessage:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"first": 2, "second": 3}'}}
    return ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})


def test_a_call_is_run_and_its_result_is_appended() -> None:
    client = ToolCallingClient(AsyncOpenAI(api_key="none"), "m", "Add")
    (run,) = client.run_tools(message("add_numbers"))

    assert (run.name, run.arguments, run.result) == ("add_numbers", {"first": 2, "second": 3}, "5")
    assert client.messages == [
        {"role": "user", "content": "Add"},
        {"role": "tool", "tool_call_id": "call_1", "content": "5"},
    ]


def test_a_call_of_another_tool_is_not_run() -> None:
    client = ToolCallingClient(AsyncOpenAI(api_key="none"), "m", "Add")

    assert client.run_tools(message("remove_numbers")) == []
    assert client.run_tools(ChatCompletionMessage(role="assistant", content="no")) == []


async def test_a_reply_that_was_cut_off_is_a_reply() -> None:
    async with (
        scripted_upstream(text_reply("For ever ", "and", reason="length"), pages={}) as upstream,
        serve_proxy(upstream.url) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as openai,
    ):
        reply = await ToolCallingClient(openai, "m", "Add").ask()

    assert reply.content == "For ever and"
