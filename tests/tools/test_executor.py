"""The execution of calls."""

import asyncio

import pytest

from fcshim.errors import ConfigError, ToolError
from fcshim.events import CallError, ToolCallEnd
from fcshim.messages import MediaPart, TextPart, ToolMessage
from fcshim.tools import (
    CallContext,
    CallFinished,
    CallProgressed,
    CallStarted,
    Executor,
    FunctionTool,
    PermissionDecision,
    Permissions,
    Registry,
    ToolProgress,
    ToolResult,
    Traits,
    parse_rules,
)
from tests.virtual_time import in_virtual_time


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


def call(name, arguments="{}", *, number=0, error=None):
    return ToolCallEnd(f"call_{number}", name, arguments, number, error=error)


async def result_of(made, *tools, **settings):
    (message,) = await Executor(tools, **settings).execute([made])

    assert made.tool_call_id == message.tool_call_id
    return message


HINT = "\n[Analyze the error above and try a different approach.]"


def text_of(message):
    """Return the text, without the hint that ends every failure."""
    (part,) = message.content
    assert message.is_error == part.text.endswith(HINT)
    return part.text.removesuffix(HINT)


def test_definitions_come_in_the_order_of_the_tools():
    tools = Executor([subtract, FunctionTool(add, name="plus")])

    assert ["subtract", "plus"] == [tool.name for tool in tools.definitions]


async def test_a_call_gives_a_result_under_its_id():
    expected = ToolMessage("call_0", (TextPart("3"),), "add", is_error=False)

    assert expected == await result_of(call("add", '{"a": 1, "b": 2}'), add)


async def test_no_arguments_at_all_count_as_an_empty_object():
    assert "7" == text_of(await result_of(call("seven", ""), FunctionTool(lambda: 7, name="seven")))


async def test_an_unknown_tool_gives_a_hint_and_the_names():
    message = await result_of(call("ad"), add, subtract)

    assert message.is_error
    assert "There is no tool named ad. Did you mean add? Available: add, subtract." == text_of(message)


async def test_an_invalid_call_gets_an_error_and_is_not_executed():
    executed = []
    error = CallError("malformed", "a value is missing", '{"a": }')
    message = await result_of(call("note", error=error), FunctionTool(lambda: executed.append(1), name="note"))

    assert message.is_error
    assert 'The call was not executed (malformed): a value is missing\nIt was written so: {"a": }' == text_of(message)
    assert [] == executed


@pytest.mark.parametrize("arguments", ["[1]", "{", '"a"', "[" * 100_000])
async def test_arguments_that_are_not_an_object_fail(arguments):
    message = await result_of(call("add", arguments), add)

    assert message.is_error
    assert "The arguments are not a JSON object." == text_of(message)


async def test_a_call_that_takes_too_long_fails():
    async def forever():
        await asyncio.Event().wait()

    message = await result_of(call("forever"), forever, timeout=0.01)

    assert message.is_error
    assert "forever gave no result within 0.01 seconds." == text_of(message)


async def test_results_keep_the_order_of_the_calls():
    ended = [asyncio.Event() for _ in range(4)]

    async def end(turn: int) -> int:
        """End as this one of three."""
        await ended[turn - 1].wait()
        ended[turn].set()
        return turn

    ended[0].set()
    calls = [call("end", f'{{"turn": {turn}}}', number=i) for i, turn in enumerate((3, 1, 2))]
    messages = await Executor([end]).execute(calls)

    assert ["3", "1", "2"] == [text_of(message) for message in messages]


async def test_no_more_than_max_parallel_calls_run_at_once():
    running, most = 0, 0
    three = asyncio.Event()

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            three.set()
        await three.wait()
        await asyncio.sleep(0.001)
        running -= 1

    await Executor([work], max_parallel=3).execute([call("work", number=i) for i in range(10)])

    assert 3 == most


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two tools named 'add'"):
        Executor([add, FunctionTool(subtract, name="add")])


def test_at_least_one_call_must_be_able_to_run():
    with pytest.raises(ConfigError, match="max_parallel"):
        Executor([add], max_parallel=0)


async def test_a_tool_that_is_not_parallel_runs_alone():
    running, most = 0, 0

    async def write() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    tool = FunctionTool(write, traits=Traits(parallel=False))
    await Executor([tool]).execute([call("write", number=i) for i in range(5)])

    assert 1 == most


async def test_a_tools_own_timeout_takes_precedence():
    async def forever():
        await asyncio.Event().wait()

    message = await result_of(call("forever"), FunctionTool(forever, traits=Traits(timeout=0.01)), timeout=60)

    assert "forever gave no result within 0.01 seconds." == text_of(message)


async def test_output_beyond_the_limit_is_cut():
    """Requirement 35."""
    message = await result_of(call("flood"), FunctionTool(lambda: "x" * 60_000, name="flood"))
    text = text_of(message)

    note = "\n(truncated: 8800 characters are left out here)\n"

    assert 50 * 1024 + len(note) == len(text)
    assert text.endswith(f"x{note}{'x' * 1_000}")


async def test_the_end_of_a_long_result_says_how_to_read_on():
    """Also through an MCP server, whose tools have no limit of their own here."""
    flood = FunctionTool(lambda: "x\n" * 60_000 + "(read on with offset 7711)", name="flood")

    assert text_of(await result_of(call("flood"), flood)).endswith("x\n(read on with offset 7711)")


async def test_a_long_error_is_cut_and_keeps_its_hint():
    """Requirement 35."""

    def flood():
        raise ToolError("x" * 60_000 + "FATAL\n(exit code 3)")

    text = text_of(await result_of(call("flood"), flood))

    note = "\n(truncated: 8819 characters are left out here)\n"

    assert f"x{note}x" in text
    assert text.endswith("FATAL\n(exit code 3)")
    assert 50 * 1024 + len(note) == len(text)


async def test_a_tool_s_own_limit_holds_for_what_the_model_sees():
    """Requirement 40: Read gives 128 KB, which is more than other tools may."""
    tool = FunctionTool(lambda: "x" * 60_000, name="flood", traits=Traits(max_output=70_000))

    assert 60_000 == len(text_of(await result_of(call("flood"), tool)))


@pytest.mark.parametrize(("given", "own", "kept"), [(None, None, 51_200), (None, 70_000, 70_000), (100, 70_000, 100)])
async def test_what_the_operator_sets_limits_every_tool(given, own, kept):
    tool = FunctionTool(lambda: "x" * 90_000, name="flood", traits=Traits(max_output=own))

    assert kept == text_of(await result_of(call("flood"), tool, max_output=given)).count("x")


async def test_pictures_are_kept():
    picture = MediaPart("image/png", data="iVBO")
    tool = FunctionTool(lambda: ToolResult((TextPart("x" * 20), picture, TextPart("more"))), name="shot")
    message = await result_of(call("shot"), tool, max_output=10)

    cut, more = (f"\n(truncated: {count} characters are left out here)\n" for count in (10, 4))

    assert (TextPart(f"{'x' * 8}{cut}xx"), picture, TextPart(more)) == message.content


async def test_common_mistakes_are_repaired():
    """Requirement 35: a number in a string."""
    assert "3" == text_of(await result_of(call("add", '{"a": "1", "b": 2.0}'), add))


async def test_every_mistake_has_its_message():
    """Requirement 24."""
    message = await result_of(call("add", '{"b": "x", "c": 1}'), add)

    assert "Wrong arguments for add:\n" in text_of(message)
    assert {"- a: missing", "- b: expected integer, got string"} <= set(text_of(message).splitlines())


async def test_a_call_without_permission_is_not_executed():
    executed = []
    tool = FunctionTool(lambda: executed.append(1), name="note")
    message = await result_of(call("note"), tool, permissions=Permissions("ask"))

    assert "note was not executed. It needs permission, and there is no user to ask." == text_of(message)
    assert [] == executed


@in_virtual_time
async def test_waiting_for_approval_does_not_count_as_execution_time():
    async def ask(_):
        await asyncio.sleep(1.0)
        return PermissionDecision(allowed=True)

    async def three() -> int:
        return 3

    message = await result_of(call("three"), three, timeout=0.9, permissions=Permissions(ask=ask))

    assert "3" == text_of(message)


async def test_the_listener_gets_the_events_of_a_call():
    events = []

    async def work(context: CallContext) -> str:
        context.report(ToolProgress(1, 2, "half"))
        return context.call_id

    made = call("work")
    (message,) = await Executor([work]).execute([made], events.append)

    assert "call_0" == text_of(message)
    assert [
        CallStarted(made),
        CallProgressed("call_0", ToolProgress(1, 2, "half")),
        CallFinished(message, final=False),
    ] == events


async def test_cancelling_cancels_the_work():
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def forever():
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    running = asyncio.create_task(Executor([forever]).execute([call("forever")]))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert cancelled.is_set()


async def test_a_registry_is_used_directly():
    registry = Registry([add])
    executor = Executor(registry)
    registry.register(subtract)
    (message,) = await executor.execute([call("subtract", '{"a": 3, "b": 1}')])

    assert "2" == text_of(message)
    assert ["add", "subtract"] == [tool.name for tool in executor.definitions]


async def test_what_may_never_run_is_refused_before_its_arguments_are_read():
    """Requirement 29: look up, permission, validation; a question comes after, as it shows the arguments."""
    asked = []

    async def ask(request):
        asked.append(request.arguments)
        return PermissionDecision(allowed=True)

    tool = FunctionTool(add, traits=Traits(source="builtin:x"))
    wrong, right = call("add", '{"a": "x"}'), call("add", '{"a": 1, "b": 2}')
    denied = Permissions(rules=parse_rules("deny", ["add"]), ask=ask)
    planning, asking = Permissions("read_only", ask=ask), Permissions(ask=ask)
    restricted = Permissions(ask=ask, restrictions=(parse_rules("allow", ["subtract"]),))

    assert "A rule of the user forbids add here." in text_of(await result_of(wrong, tool, permissions=denied))
    assert "The tools are read-only now" in text_of(await result_of(wrong, tool, permissions=planning))
    assert "allows other tools only" in text_of(await result_of(wrong, tool, permissions=restricted))
    assert "It is not known to be safe." in text_of(await result_of(wrong, tool))
    assert "Wrong arguments for add" in text_of(await result_of(wrong, tool, permissions=asking))
    assert [] == asked
    assert "3" == (await result_of(right, tool, permissions=asking)).content[0].text
    assert [{"a": 1, "b": 2}] == asked


@pytest.mark.security
async def test_the_log_has_arguments_and_results_without_credentials(caplog):
    """Requirement 29."""

    def login(user: str, password: str) -> str:
        """Log in."""
        return f"{user} logged in with {password}, TOKEN=abc"

    made = call("login", '{"user": "ada", "password": "hunter2hunter2"}')
    caplog.set_level("INFO", "fcshim.tools")
    await result_of(made, login)
    quiet = caplog.text
    caplog.set_level("DEBUG", "fcshim.tools")
    await result_of(made, login)
    await result_of(call("nothing", "{}"), login)
    lines = [record.getMessage() for record in caplog.records]

    assert "login call_0: done in" in quiet
    assert "arguments" not in quiet
    assert 'login call_0: arguments: {"user":"ada","password":"***"}' in lines
    assert "login call_0: result: ada logged in with **************, TOKEN=***" in lines
    assert "hunter2" not in caplog.text
    assert any(line.startswith("nothing call_0: failed in") for line in lines)


@pytest.mark.parametrize(("seconds", "fails"), [(119, False), (121, True)])
@in_virtual_time
async def test_a_call_may_take_two_minutes(seconds, fails):
    """Requirement 23."""

    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "done"

    message = await result_of(call("wait"), wait)

    assert fails == message.is_error
    assert ("no result within 120 seconds" if fails else "done") in text_of(message)
