from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage

from fcshim.demo.tool_client import QUESTION, ToolCallingClient


def message(name: str) -> ChatCompletionMessage:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"first": 2, "second": 3}'}}
    return ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})


def test_a_call_is_run_and_its_result_added() -> None:
    talk = ToolCallingClient(AsyncOpenAI(api_key="none"), "m")
    (run,) = talk.run_tools(message("add_numbers"))

    assert (run.name, run.arguments, run.result) == ("add_numbers", {"first": 2, "second": 3}, "5")
    assert talk.messages == [
        {"role": "user", "content": QUESTION},
        {"role": "tool", "tool_call_id": "call_1", "content": "5"},
    ]


def test_a_call_of_something_else_is_not_run() -> None:
    talk = ToolCallingClient(AsyncOpenAI(api_key="none"), "m")

    assert talk.run_tools(message("remove_numbers")) == []
    assert talk.run_tools(ChatCompletionMessage(role="assistant", content="no")) == []
