import json
from random import Random

from fcshim.demo.conversations import make_conversation, make_echo_conversation, make_exchange, make_scenario
from fcshim.events import Text, ToolCallEnd
from fcshim.messages import AUTO, Tool
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.parse.stream import parse
from fcshim.prompt.render import render_result, render_system
from fcshim.schema.validate import first_violation


def test_a_seed_gives_the_same_conversation() -> None:
    assert make_conversation(Random(9)) == make_conversation(Random(9))


def test_a_conversation_alternates_and_ends_with_the_assistant() -> None:
    rng = Random(1)
    for _ in range(200):
        roles = [turn.role for turn in make_conversation(rng)]

        assert roles == ["system"] + ["user", "assistant"] * (len(roles) // 2)


def test_the_system_prompt_is_the_one_that_fcshim_sends() -> None:
    rng = Random(2)
    for _ in range(200):
        scenario = make_scenario(rng)
        tools_prompt = render_system(FUNCTION_CALL, scenario.tools, scenario.choice, parallel=scenario.parallel)

        assert scenario.system() == (
            f"{scenario.instructions}\n\n{tools_prompt}" if scenario.instructions else tools_prompt
        )


def test_the_calls_of_a_response_are_parsed_back() -> None:
    rng = Random(3)
    for _ in range(300):
        scenario = make_scenario(rng)
        exchange = make_exchange(rng, scenario, rng.randint(1, 3))
        events = parse(exchange.response(), tools=list(scenario.tools))
        ends = [event for event in events if isinstance(event, ToolCallEnd)]
        read = [(end.tool_call_name, json.loads(end.tool_call_arguments_complete)) for end in ends]

        assert read == [(call.name, call.arguments) for call in exchange.calls]
        assert [end for end in ends if end.error or end.coerced] == []
        assert "".join(event.text for event in events if isinstance(event, Text)).strip() == ""


def test_arguments_match_the_schema() -> None:
    rng = Random(4)
    for _ in range(300):
        scenario = make_scenario(rng)
        schemas = {tool.name: tool.parameters for tool in scenario.tools}
        for call in make_exchange(rng, scenario, 1).calls:
            assert first_violation(schemas[call.name], call.arguments) is None


def test_the_command_contains_every_name_and_value() -> None:
    rng = Random(5)
    for _ in range(300):
        exchange = make_exchange(rng, make_scenario(rng), 1)
        (call,) = exchange.calls
        for part in (call.name, *call.arguments, *map(str, call.arguments.values())):
            assert part.lower() in exchange.command.lower()


def test_a_forced_choice_is_obeyed() -> None:
    rng = Random(6)
    scenarios = [scenario for scenario in (make_scenario(rng) for _ in range(500)) if scenario.choice.names]
    for scenario in scenarios:
        assert {call.name for call in make_exchange(rng, scenario, 1).calls} <= set(scenario.choice.names)

    assert scenarios


def test_a_plain_scenario_has_no_tool_choice_and_parallel_calls() -> None:
    rng = Random(7)

    assert all(
        (scenario.choice, scenario.parallel) == (AUTO, True)
        for scenario in (make_scenario(rng, plain=True) for _ in range(300))
    )


def test_results_and_final_answers_are_in_order_and_report_failures() -> None:
    rng = Random(8)
    seen = set()
    for _ in range(300):
        exchange = make_exchange(rng, make_scenario(rng, plain=True), 2)
        results = [render_result(FUNCTION_CALL, c.name, c.result, is_error=c.failed) for c in exchange.calls]
        seen |= {call.failed for call in exchange.calls}

        assert exchange.results() == "\n".join(results)
        for call, line in zip(exchange.calls, exchange.final_answer().split("\n"), strict=True):
            assert line == f"{call.name} {'failed:' if call.failed else 'returned'} {call.result}"

    assert seen == {True, False}


def test_an_echo_conversation_repeats_the_text() -> None:
    rng = Random(10)
    for _ in range(100):
        command, answer = make_echo_conversation(rng)

        assert command.text.partition(" ")[2] == answer.text


def test_tools_have_object_schemas() -> None:
    tools = make_scenario(Random(11)).tools

    assert tools
    assert all(isinstance(tool, Tool) and tool.parameters["type"] == "object" for tool in tools)
