from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage

from fcshim.demo.tool_client import QUESTION, ToolCallingClient


def message(name: str) -> ChatCompletionMessage:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"first": 2, "second": 3}'}}
    return ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})


def test_a_call_is_run_and_its_result_is_appended() -> None:
    client = ToolCallingClient(AsyncOpenAI(api_key="none"), "m")
    (run,) = client.run_tools(message("add_numbers"))

    assert (run.name, run.arguments, run.result) == ("add_numbers", {"first": 2, "second": 3}, "5")
    assert client.messages == [
        {"role": "user", "content": QUESTION},
        {"role": "tool", "tool_call_id": "call_1", "content": "5"},
    ]


def test_a_call_of_another_tool_is_not_run() -> None:
    client = ToolCallingClient(AsyncOpenAI(api_key="none"), "m")

    assert client.run_tools(message("remove_numbers")) == []
    assert client.run_tools(ChatCompletionMessage(role="assistant", content="no")) == []
