"""Misbehaving servers: the call fails or works, the server is lost or kept, and no other server is affected."""

import asyncio

import pytest

from fcshim.mcp import link, stdio_transport
from fcshim.mcp.connection import ConnectionTimeouts
from fcshim.mcp.connection_state import ConnectionState
from tests.mcp.server_programs import eventually, is_running, manager, server


async def outcome(manner, **settings):
    """Call the tool of a misbehaving server, beside a good one that must not be affected."""
    bad, good = server("raw", manner, called="bad", **settings), server("raw", called="good")
    async with manager(bad, good) as servers:
        result = await servers.call("bad:work", {})
        after = await servers.call("bad:work", {}) if manner not in ("never", "silent") else None
        unhurt = await servers.call("good:work", {})
        (status, _) = servers.status()

    assert not unhurt.is_error
    return result, after, status


@pytest.mark.parametrize("manner", ["garbage", "long-line", "noisy", "good"])
async def test_unusual_but_readable_output_is_survived(manner):
    """Lines that are not messages, a message of ten megabytes, a flood on standard error."""
    result, after, status = await outcome(manner)

    assert not result.is_error
    assert not after.is_error
    assert ConnectionState.READY is status.state


@pytest.mark.parametrize("manner", ["too-long-line", "too-long-tail"])
async def test_an_answer_beyond_the_limit_fails_its_call_alone(manner):
    result, _, status = await outcome(manner)

    assert result.is_error
    assert "the answer is longer than 16777216 bytes" in result.text
    assert ConnectionState.READY is status.state


@pytest.mark.parametrize(
    ("manner", "said"),
    [("many-values", "it has more than 50000 values"), ("many-blocks", "the answer has 2001 entries in 'content'")],
)
async def test_an_answer_that_takes_long_to_validate_fails_its_call_alone(manner, said):
    result, _, status = await outcome(manner)

    assert result.is_error
    assert said in result.text
    assert ConnectionState.READY is status.state


async def test_of_a_flood_of_notifications_the_excess_is_dropped(caplog, monkeypatch):
    """Whatever their number in a second: a busy machine reads them slowly."""
    monkeypatch.setattr(link, "_RATES", {True: (1_000, 1_000), False: (1_000, 0.1)})
    result, after, status = await outcome("flood")

    assert not result.is_error
    assert not after.is_error
    assert ConnectionState.READY is status.state
    assert 1 == caplog.text.count("it sends too many messages")


async def test_an_answer_that_is_nested_too_deeply_fails_its_call_alone():
    result, _, status = await outcome("deep-line")

    assert result.is_error
    assert "the answer is nested too deeply" in result.text
    assert ConnectionState.READY is status.state


async def test_a_tool_list_that_is_nested_too_deeply_is_an_error():
    async with manager(server("raw", "deep-tools")) as servers:
        (status,) = servers.status()

    assert "the answer is nested too deeply" in status.error


async def test_an_endless_line_fails_the_call_and_keeps_the_session():
    result, _, status = await outcome("endless-line", timeout=1.0)

    assert "gave no result within 1 seconds" in result.text
    assert ConnectionState.READY is status.state


async def test_a_server_that_never_answers_fails_the_call():
    result, _, status = await outcome("never", timeout=0.3)

    assert "work gave no result within 0.3 seconds" in result.text
    assert ConnectionState.READY is status.state


async def test_an_answer_that_is_no_result_fails_the_call():
    result, after, _ = await outcome("not-a-result")

    assert result.is_error
    assert after.is_error
    assert "gave no valid result" in result.text


async def test_content_of_an_unknown_kind_fails_the_call():
    result, _, _ = await outcome("strange-content")

    assert "gave no valid result" in result.text


async def test_a_servers_error_is_reported():
    result, _, _ = await outcome("error")

    assert "The MCP server bad failed: it broke" == result.text


async def test_a_failure_without_a_message_gets_one():
    """Requirement 22."""
    result, _, _ = await outcome("no-words")

    assert result.is_error
    assert "The tool failed and did not say why." == result.text


async def test_a_server_that_dies_at_once_is_quoted():
    result, _, status = await outcome("dead")

    assert "'bad' is not connected" in result.text
    assert "it exited with status 1; it wrote: no key was given" in result.text
    assert ConnectionState.READY is not status.state


async def test_all_pages_are_read_and_a_name_that_comes_twice_counts_once():
    async with manager(server("raw", "pages")) as servers:
        names = [tool.name for tool in servers.tools()]

    assert ["work", "more"] == names


async def test_a_tool_list_that_does_not_end_is_an_error():
    async with manager(server("raw", "endless-pages")) as servers:
        (status,) = servers.status()

    assert "its list of tools does not end" in status.error


async def test_an_invalid_tool_does_not_hide_the_others():
    """Requirement 17; the SDK would refuse the whole list."""
    async with manager(server("raw", "odd-tools")) as servers:
        schemas = {tool.name: tool.definition.parameters for tool in servers.tools()}
        result = await servers.call("f:work", {})
    empty = {"type": "object", "properties": {}}

    assert {"bare": empty | {"$schema": "x"}, "none": empty, "work": empty} == schemas
    assert not result.is_error


async def test_a_tool_list_that_is_no_list_is_an_error():
    async with manager(server("raw", "no-list")) as servers:
        (status,) = servers.status()

    assert ConnectionState.READY is not status.state
    assert "its answer is not valid: tools: " in status.error


async def test_a_silent_server_does_not_delay_the_start():
    timeouts = ConnectionTimeouts(connect=4.0, reconnect=4.0, ping=30.0)
    async with manager(server("raw", "silent", called="bad"), server("raw", called="good"), timeouts=timeouts) as made:
        bad, _ = made.status()
        await eventually(lambda: made.status()[1].state is ConnectionState.READY)

    assert "it timed out" in bad.error


async def test_an_idle_server_that_misses_pings_is_restarted(monkeypatch):
    monkeypatch.setattr("fcshim.mcp.monitor._PING_SECONDS", 0.1)
    timeouts = ConnectionTimeouts(connect=60.0, reconnect=60.0, ping=0.1)
    async with manager(server("raw", "deaf"), timeouts=timeouts) as servers:
        first = await servers.call("f:work", {})
        await eventually(lambda: servers.status()[0].state is not ConnectionState.READY)
        second = await servers.call("f:work", {})

    assert first.text != second.text


async def test_an_idle_server_that_answers_pings_is_kept():
    timeouts = ConnectionTimeouts(connect=30.0, reconnect=10.0, ping=0.05)
    async with manager(server("raw")) as servers, manager(server("raw"), timeouts=timeouts) as asked:
        first = await asked.call("f:work", {})
        await asyncio.sleep(0.3)
        second = await asked.call("f:work", {})
        (status,) = servers.status()

    assert first.text == second.text
    assert ConnectionState.READY is status.state


@pytest.mark.parametrize("manner", ["child", "daemon"])
async def test_a_servers_child_processes_end_with_it(manner, tmp_path):
    """Requirement 27: the process group, and processes that left it."""
    file = tmp_path / "children"
    async with manager(server("raw", manner, str(file))):
        child = int(file.read_text())

        assert is_running(child)

    await eventually(lambda: not is_running(child))


async def test_a_server_that_will_not_end_is_killed_after_three_seconds():
    """Requirement 27: it gets the time to end, and no more. The limits have a second of reserve and more."""
    clock = asyncio.get_running_loop().time
    made = manager(server("raw", "stubborn"))
    async with made as servers:
        process = int((await servers.call("f:work", {})).text)
        started = clock()
    seconds = clock() - started

    assert not is_running(process)
    assert 3.0 == stdio_transport.GRACE
    assert 2.5 < seconds < 6.0


async def test_a_server_that_ends_by_itself_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(stdio_transport, "GRACE", 3_600.0)
    async with asyncio.timeout(120), manager(server("raw")):
        pass


async def test_a_cancelled_start_leaves_no_process():
    made = manager(server("raw", "silent"))
    start = asyncio.create_task(made.__aenter__())
    await asyncio.sleep(0.3)
    guard = made._guard
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start

    assert guard._process is None
    assert {ConnectionState.CLOSED} == {status.state for status in made.status()}
