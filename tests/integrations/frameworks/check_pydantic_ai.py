"""The model of Pydantic AI, with the embedded model as another model of it."""

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ImageUrl, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, SystemPromptPart, TextPartDelta, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import DeltaThinkingPart, FunctionModel
from pydantic_ai.tools import ToolDefinition

from fcshim.demo.text_generator import EmbeddedGenerator
from fcshim.integrations.pydantic_ai import FcshimModel

EMBEDDED = EmbeddedGenerator()
QUESTION = "call add_numbers with first=19, second=23"
CALL = '<function_call>\n{"name": "add_numbers", "arguments": {"first": 19, "second": 23}}\n</function_call>'
BROKEN = CALL.replace("23", '"many"')


def dicts(messages):
    roles = {SystemPromptPart: "system", UserPromptPart: "user", TextPart: "assistant"}
    return [{"role": roles[type(part)], "content": part.content} for message in messages for part in message.parts]


async def tiny(messages, info):
    assert not info.function_tools + info.output_tools
    for piece in EMBEDDED(dicts(messages)):
        await asyncio.sleep(0)
        yield piece


def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def embedded(**settings):
    return FcshimModel(FunctionModel(stream_function=tiny), name="fcshim-tiny", **settings)


def scripted(*replies, seen=None, **settings):
    left = list(replies)

    async def answer(messages, info):
        if seen is not None:
            seen.append((dicts(messages), dict(info.model_settings or {})))
        yield left.pop(0)

    return FcshimModel(FunctionModel(stream_function=answer), **settings)


def calls_of(result):
    responses = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
    return [(part.tool_name, part.args_as_dict()) for message in responses for part in message.tool_calls]


def test_a_real_model_takes_two_rounds_of_tools():
    result = Agent(embedded(), tools=[add_numbers]).run_sync(QUESTION)

    assert "add_numbers returned 42" == result.output.strip()
    assert [("add_numbers", {"first": 19, "second": 23})] == calls_of(result)
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("arguments", ["validated", "stream"])
def test_a_real_model_streams_two_rounds(arguments):
    async def run():
        deltas, started = [], []
        agent = Agent(embedded(arguments=arguments), tools=[add_numbers])
        async with agent.iter(QUESTION) as nodes:
            async for node in nodes:
                if Agent.is_model_request_node(node):
                    async with node.stream(nodes.ctx) as events:
                        async for event in events:
                            if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                                deltas.append(event.delta.content_delta)
                            elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                                deltas.append(event.part.content)
                            elif isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
                                started.append(event.part.tool_name)
        return nodes.result, deltas, started

    result, deltas, started = asyncio.run(run())

    assert "add_numbers returned 42" == result.output.strip()
    assert len(deltas) > 3
    assert "add_numbers returned 42" == "".join(deltas).strip()
    assert ["add_numbers"] == started


def test_a_call_against_its_schema_is_asked_for_again():
    result = Agent(scripted(BROKEN, CALL, "Done."), tools=[add_numbers]).run_sync("Go")

    assert [("add_numbers", {"first": 19, "second": 23})] == calls_of(result)


def test_a_call_that_stays_invalid_is_an_error():
    with pytest.raises(UnexpectedModelBehavior, match="second"):
        Agent(scripted(*[BROKEN] * 9, max_retries=1), tools=[add_numbers]).run_sync("Go")


def asked(model, text="Go", **settings):
    return asyncio.run(model_request(model, [ModelRequest.user_text_prompt(text)], **settings))


TOOL = ToolDefinition(
    name="add_numbers",
    parameters_json_schema={
        "type": "object",
        "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
    },
)
OTHER = ToolDefinition(name="unchosen", parameters_json_schema={"type": "object", "properties": {}})


@pytest.mark.parametrize("choice", ["required", ["add_numbers"]])
def test_a_demanded_call_is_asked_for_again(choice):
    parameters = ModelRequestParameters(function_tools=[TOOL, OTHER])
    model = scripted("I will not.", CALL)
    reply = asked(model, model_settings={"tool_choice": choice}, model_request_parameters=parameters)

    assert ["add_numbers"] == [call.tool_name for call in reply.tool_calls]
    assert "tool_call" == reply.finish_reason


def test_only_chosen_tools_are_shown():
    seen = []
    parameters = ModelRequestParameters(function_tools=[TOOL, OTHER])
    settings = {"tool_choice": ["add_numbers"]}
    asked(scripted(CALL, seen=seen), model_settings=settings, model_request_parameters=parameters)

    (prompt, _) = seen[0]
    assert "add_numbers" in str(prompt)
    assert "unchosen" not in str(prompt)


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_no_call_is_demanded_by_default(choice):
    settings = None if choice is None else {"tool_choice": choice}
    result = Agent(scripted("I will not."), tools=[add_numbers]).run_sync("Go", model_settings=settings)

    assert "I will not." == result.output


class Stay(BaseModel):
    """A stay in a city."""

    city: str
    nights: int = 1


def test_the_answer_has_a_type():
    answer = '<function_call>\n{"name": "final_result", "arguments": {"city": "Oslo"}}\n</function_call>'

    assert Stay(city="Oslo") == Agent(scripted("Oslo!", answer), output_type=Stay).run_sync("Where?").output


def test_settings_and_instructions_reach_the_wrapped_model():
    seen = []
    agent = Agent(scripted("Hello.", seen=seen), system_prompt="Be kind.", instructions="Be brief.")
    agent.run_sync("Hi", model_settings={"temperature": 0.5, "stop_sequences": ["END"]})
    (messages, settings) = seen[0]

    assert {"temperature": 0.5, "stop_sequences": ["END"]} == settings
    assert {"Be kind.", "Be brief.", "Hi"} <= set("\n".join(each["content"] for each in messages).splitlines())


def test_a_stop_string_ends_the_reply():
    parameters = ModelRequestParameters(function_tools=[TOOL])
    settings = {"stop_sequences": ["END"]}
    reply = asked(scripted("a END b"), model_settings=settings, model_request_parameters=parameters)

    assert ("a ", "stop") == (reply.text, reply.finish_reason)


def test_a_picture_is_refused():
    with pytest.raises(UserError, match="UserPromptPart: expected text"):
        Agent(scripted("Hello.")).run_sync(["Look", ImageUrl("https://example.com/a.png")])


def test_reasoning_stays_reasoning():
    async def thinking(messages, info):
        yield {0: DeltaThinkingPart(content="Let me see.")}
        yield "Hello."

    reply = asked(FcshimModel(FunctionModel(stream_function=thinking)))

    assert [("thinking", "Let me see."), ("text", "Hello.")] == [(part.part_kind, part.content) for part in reply.parts]
