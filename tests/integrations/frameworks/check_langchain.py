"""LangChain's own tests of chat models, and an agent with the embedded model."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from pydantic import BaseModel

from fcshim.demo.text_generator import EmbeddedGenerator
from fcshim.integrations.langchain import ChatFcshim

EMBEDDED = EmbeddedGenerator()
ROLES = {"human": "user", "ai": "assistant", "system": "system"}
CALL = '<function_call>\n{"name": "add_numbers", "arguments": {"first": 19, "second": 23}}\n</function_call>'


class TinyChat(BaseChatModel):
    """The embedded model as a chat model of LangChain, which knows no tools."""

    @property
    def _llm_type(self):
        return "tiny"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        text = "".join(chunk.text for chunk in self._stream(messages, stop))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        dicts = [{"role": ROLES[message.type], "content": message.content} for message in messages]
        for piece in EMBEDDED(dicts, stop=stop or ()):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


@tool
def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


class TestStandard(ChatModelUnitTests):
    """LangChain's suite."""

    @property
    def chat_model_class(self):
        return ChatFcshim

    @property
    def chat_model_params(self):
        return {"model": FakeListChatModel(responses=["Hello."])}

    @property
    def standard_chat_model_params(self):
        return {}


class TestReplies(ChatModelIntegrationTests):
    """LangChain's suite with the embedded model; the questions of its tests of tools are too hard for that."""

    has_tool_calling = False
    has_structured_output = False

    @property
    def chat_model_class(self):
        return ChatFcshim

    @property
    def chat_model_params(self):
        return {"model": TinyChat(), "model_name": "fcshim-tiny"}

    @property
    def standard_chat_model_params(self):
        return {}


def scripted(*replies, **settings):
    return ChatFcshim(model=FakeListChatModel(responses=list(replies)), **settings)


QUESTION = "call add_numbers with first=19, second=23"


def test_a_real_model_takes_two_rounds_of_tools():
    model = ChatFcshim(model=TinyChat(), model_name="fcshim-tiny").bind_tools([add_numbers])
    first = model.invoke(QUESTION)
    (call,) = first.tool_calls
    result = ToolMessage(str(add_numbers.invoke(call["args"])), tool_call_id=call["id"])
    last = model.invoke([HumanMessage(QUESTION), first, result])

    assert ("add_numbers", {"first": 19, "second": 23}) == (call["name"], call["args"])
    assert ("add_numbers returned 42", []) == (last.text.strip(), last.tool_calls)


def test_a_real_model_streams_two_rounds():
    model = ChatFcshim(model=TinyChat(), model_name="fcshim-tiny").bind_tools([add_numbers])
    first = sum_of(model.stream(QUESTION))
    result = ToolMessage("42", tool_call_id=first.tool_calls[0]["id"])
    chunks = list(model.stream([HumanMessage(QUESTION), first, result]))

    assert "add_numbers returned 42" == sum_of(chunks).text.strip()
    assert len([chunk for chunk in chunks if chunk.text]) > 3


def sum_of(chunks):
    first, *rest = chunks
    for chunk in rest:
        first += chunk
    return first


def test_an_agent_runs_its_tools():
    agent = create_agent(ChatFcshim(model=TinyChat(), model_name="fcshim-tiny"), [add_numbers])
    messages = agent.invoke({"messages": [HumanMessage(QUESTION)]})["messages"]

    assert ["human", "ai", "tool", "ai"] == [message.type for message in messages]
    assert "add_numbers returned 42" == messages[-1].text.strip()


def test_async_does_the_same():
    agent = create_agent(ChatFcshim(model=TinyChat(), model_name="fcshim-tiny"), [add_numbers])
    messages = asyncio.run(agent.ainvoke({"messages": [HumanMessage(QUESTION)]}))["messages"]

    assert "add_numbers returned 42" == messages[-1].text.strip()


def test_each_token_is_reported_once():
    """The tokens of the wrapped model are not reported beside those of this one."""

    async def texts():
        model = ChatFcshim(model=TinyChat(), model_name="fcshim-tiny")
        events = [event async for event in model.astream_events("Hello", version="v2")]
        starts = [event for event in events if event["event"] == "on_chat_model_start"]
        return starts, "".join(e["data"]["chunk"].text for e in events if e["event"] == "on_chat_model_stream"), events

    starts, streamed, events = asyncio.run(texts())

    assert 1 == len(starts)
    assert events[-1]["data"]["output"].text == streamed


@pytest.mark.parametrize("choice", ["any", "required", True, "add_numbers"])
def test_a_demanded_call_is_asked_for_again(choice):
    reply = scripted("I will not.", CALL).bind_tools([add_numbers], tool_choice=choice).invoke("Go")

    assert ["add_numbers"] == [call["name"] for call in reply.tool_calls]


@pytest.mark.parametrize("choice", [None, "auto", False])
def test_no_call_is_demanded_by_default(choice):
    assert (
        "I will not." == scripted("I will not.", CALL).bind_tools([add_numbers], tool_choice=choice).invoke("Go").text
    )


def test_a_call_against_its_schema_is_asked_for_again():
    reply = scripted(CALL.replace("23", '"many"'), CALL).bind_tools([add_numbers]).invoke("Go")

    assert [{"first": 19, "second": 23}] == [call["args"] for call in reply.tool_calls]


def test_a_call_that_stays_invalid_is_not_run():
    broken = CALL.replace("23", '"many"')
    reply = scripted(broken, broken, broken, broken).bind_tools([add_numbers]).invoke("Go")

    assert [] == reply.tool_calls


class Stay(BaseModel):
    """A stay in a city."""

    city: str
    nights: int = 1


def test_the_answer_has_a_type():
    answer = '<function_call>\n{"name": "Stay", "arguments": {"city": "Oslo"}}\n</function_call>'

    assert Stay(city="Oslo") == scripted(answer).with_structured_output(Stay).invoke("Where?")


def test_usage_and_the_reason_of_the_end_are_reported():
    reply = scripted("Hello.", model_name="m").invoke("Hi")

    assert {"finish_reason": "stop", "model_name": "m"}.items() <= reply.response_metadata.items()
    assert reply.usage_metadata["total_tokens"] > 0


def test_options_go_to_the_wrapped_model():
    class Recording(FakeListChatModel):
        def _stream(self, messages, stop=None, run_manager=None, **kwargs):
            seen.append((kwargs, stop, [message.type for message in messages]))
            yield from super()._stream(messages, stop, run_manager)

    seen = []
    ChatFcshim(model=Recording(responses=["a END b"])).invoke([("system", "Be kind."), ("user", "Hi")], temperature=0.5)
    ChatFcshim(model=Recording(responses=["x"])).bind_tools([add_numbers]).invoke("Hi", stop=["END"])

    assert ({"temperature": 0.5}, None, ["system", "human"]) == seen[0]
    assert ({}, None, ["system", "human"]) == seen[1]  # the stream of fcshim finds the stop between calls


def test_a_stop_string_ends_the_reply():
    assert "a " == scripted("a END b").bind_tools([add_numbers]).invoke("Hi", stop=["END"]).text
