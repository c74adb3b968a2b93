"""The table of docs/agents.md, and the scripted model with which agents are tried."""

import json

import pytest

from fcshim import StreamParser, Tool, ToolCallEnd
from tests.clients import results
from tests.clients.agents.dialects import NOTATIONS
from tests.clients.agents.model import refusal
from tests.clients.agents.plan import HARD

USER = {"role": "user", "content": "Hi"}
REPORT = """<testsuites><testsuite>
<testcase name="{name}"><properties>
<property name="client" value="some_agent"/><property name="version" value="1.2"/>
<property name="api" value="anthropic"/><property name="dialect" value="{dialect}"/>
</properties>{inside}</testcase>
<testcase name="another"/></testsuite></testsuites>"""


@pytest.mark.parametrize("dialect", NOTATIONS)
def test_the_parser_reads_what_the_scripted_model_writes(dialect):
    calls = [("write", {"path": "a", "content": f"{HARD}\n{HARD}"}), ("read", {"path": "b"})]
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
    parser = StreamParser(dialect=dialect, tools=[Tool(name, "", schema) for name, _ in calls])
    text = "Step 1.\n" + NOTATIONS[dialect].write(calls)
    events = [event for at in range(0, len(text), 7) for event in parser.feed(text[at : at + 7])] + parser.close()
    ends = [event for event in events if isinstance(event, ToolCallEnd)]

    assert calls == [(end.tool_call_name, json.loads(end.tool_call_arguments_complete)) for end in ends]
    assert [None, None] == [end.error for end in ends]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": "none"},
        {"parallel_tool_calls": True},
        {"messages": [{"role": "developer", "content": "Hi"}]},
        {"messages": [USER, {"role": "system", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
        {"messages": [{"role": "assistant", "content": None}]},
        {"stream": False},
    ],
)
def test_the_endpoint_refuses_all_but_text(fields):
    assert "" == refusal({"messages": [USER], "stream": True})
    assert "" != refusal({"messages": [USER], "stream": True, **fields})


def report(tmp_path, *, name="one", dialect="hermes", inside=""):
    path = tmp_path / "report.xml"
    path.write_text(REPORT.format(name=name, dialect=dialect, inside=inside), encoding="utf-8")
    return list(results.read_cases(path))


def test_a_row_has_the_dialects_of_a_client_and_api(tmp_path):
    cases = [*report(tmp_path), *report(tmp_path, dialect="glm"), *report(tmp_path)]

    assert [
        "| client | version | API | dialects |",
        "| --- | --- | --- | --- |",
        "| some agent | 1.2 | Messages | `hermes`, `glm` |",
    ] == results.table(cases).splitlines()


@pytest.mark.parametrize("kind", ["failure", "error", "skipped"])
def test_the_table_is_not_written_when_a_client_did_not_pass(kind, tmp_path):
    [(case, what)] = results.unpassed(report(tmp_path, inside=f"<{kind}/>"))

    assert ("one", kind) == (case.get("name"), what)
    assert [] == list(results.unpassed(report(tmp_path)))


def test_the_table_takes_the_place_of_the_old_one():
    page = f"before\n{results.BEGIN}old\n{results.END}\nafter"

    assert f"before\n{results.BEGIN}\nnew\n\n{results.END}\nafter" == results.replace_table(page, "new\n")
