"""The tools of the loops: results by arguments, state, and errors that help."""

import pytest

from benchmarks.models.sandbox import Sandbox, tool_definitions
from fcshim.events import ToolCallEnd


def result(name, **arguments):
    return Sandbox().result_of(name, arguments).text


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("work_out", {"expression": "2 * 1.4 + 0.9"}, "3.7"),
        ("work_out", {"expression": "-(3 - 1) / 4"}, "-0.5"),
        ("work_out", {"expression": "1 / 3"}, "0.33"),
        (
            "to_unit",
            {"amount": 180, "unit": "celsius", "target": "fahrenheit"},
            '{"amount": 356, "unit": "fahrenheit"}',
        ),
        ("to_unit", {"amount": 212, "unit": "fahrenheit", "target": "celsius"}, '{"amount": 100, "unit": "celsius"}'),
        ("to_unit", {"amount": 3.2, "unit": "kg", "target": "g"}, '{"amount": 3200, "unit": "g"}'),
        ("to_unit", {"amount": 310, "unit": "km", "target": "mile"}, '{"amount": 192.63, "unit": "mile"}'),
        ("shift_date", {"day": "2026-04-09", "days": 30}, "2026-05-09"),
        ("shift_date", {"day": "2026-03-01", "days": -1}, "2026-02-28"),
        ("days_between", {"start": "2026-06-01", "end": "2026-07-14"}, "43"),
        ("weekday_of", {"day": "2026-05-09"}, "Saturday"),
        ("folder_contents", {"folder": "/notes/"}, '["ideas.txt", "todo-may.txt"]'),
        ("file_text", {"path": "./notes/ideas.txt"}, "Paint the shed."),
        ("find_articles", {"words": "Desk Lamps"}, result("find_articles", words="lamp")),
        ("road_distance", {"origin": "Turin", "destination": "Lyon"}, '{"km": 310, "minutes": 215}'),
        ("day_plan", {"day": "2030-01-01"}, '{"day": "2030-01-01", "plan": []}'),
    ],
)
def test_a_tool_returns_what_its_arguments_determine(name, arguments, expected):
    assert expected == result(name, **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("article_data", {"sku": "k-12"}, "There is no article 'k-12'. Did you mean 'K-12'?"),
        ("file_text", {"path": "/notes/todo.txt"}, "There is no file 'notes/todo.txt'."),
        ("folder_contents", {"folder": "note"}, "There is no folder 'note'."),
        ("find_articles", {"words": "tea kettle"}, "No article has the words 'tea kettle' in its name."),
        ("weekday_of", {"day": "02/03/2026"}, "'02/03/2026' is no date; write it as YYYY-MM-DD."),
        ("work_out", {"expression": "1 / 0"}, "The expression '1 / 0' has no value."),
        ("work_out", {"expression": "2 +"}, "The expression '2 +' has no value."),
        ("work_out", {"expression": "open('x')"}, "Only numbers, + - * / and parentheses can be calculated."),
        ("to_unit", {"amount": 1, "unit": "kg", "target": "km"}, "kg cannot be converted to km."),
        ("to_unit", {"amount": 1, "unit": "celsius", "target": "km"}, "celsius cannot be converted to km."),
    ],
)
def test_an_error_says_what_is_wrong(name, arguments, expected):
    assert expected == result(name, **arguments)


def test_a_sandbox_keeps_what_calls_change_and_the_next_one_starts_afresh():
    sandbox = Sandbox()
    sandbox.result_of("put_in_basket", {"sku": "S-21", "quantity": 2})
    sandbox.result_of("add_to_plan", {"day": "2026-05-20", "time": "09:00", "title": "Swim"})
    sandbox.result_of("run_timer", {"minutes": 5})

    assert '"total": 100.5}' in sandbox.result_of("put_in_basket", {"sku": "T-40", "quantity": 2}).text
    assert sandbox.result_of("day_plan", {"day": "2026-05-20"}).text.index("Swim") < 60
    assert '{"timer": 2, "rings_in_minutes": 9}' == sandbox.result_of("run_timer", {"minutes": 9}).text
    assert "Swim" not in result("day_plan", day="2026-05-20")
    assert '{"timer": 1, "rings_in_minutes": 9}' == result("run_timer", minutes=9)


async def test_calls_of_a_model_give_the_same_results_as_planned_calls():
    executor = Sandbox().executor(["article_data", "to_unit"])
    known = await executor.call(ToolCallEnd("1", "article_data", '{"sku": "K-12"}', 0))
    unknown = await executor.call(ToolCallEnd("2", "article_data", '{"sku": "k-12"}', 0))

    assert (result("article_data", sku="K-12"), False) == (known.text, known.is_error)
    assert (result("article_data", sku="k-12"), True) == (unknown.text, unknown.is_error)


def test_every_tool_and_parameter_is_described():
    definitions = tool_definitions()

    assert len(definitions) > 15
    for tool in definitions.values():
        assert tool.description
        assert all(each["description"] for each in tool.parameters["properties"].values())
        assert list(tool.parameters["properties"]) == tool.parameters["required"]
