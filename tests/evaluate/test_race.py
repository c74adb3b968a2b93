"""The race: against a scripted upstream, and in virtual time with clients of a given speed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim import Client
from fcshim.errors import UpstreamError
from fcshim.evaluate.candidates import COMMON_CANDIDATES, Candidate
from fcshim.evaluate.race import Race, RaceLimits
from fcshim.evaluate.suite import RACE, load_cases
from fcshim.events import Text, ToolCallEnd, ToolCallStart
from fcshim.reply import fold
from tests.evaluate.scripted_model import write_calls, write_nothing
from tests.scripted import HANG, ROLE, Script, scripted_upstream
from tests.virtual_time import VirtualTimeLoop

CASES = load_cases([RACE])
BY_NAME = {row.name: row for row in COMMON_CANDIDATES}
FUNCTION_CALL, BARE_JSON, FENCED_JSON = map(BY_NAME.__getitem__, ("function_call", "bare_json", "fenced_json"))
BROKEN = Script((b'{"error":{"message":"out of memory"}}',), 500)


class Log:
    """What a race reports."""

    def __init__(self):
        self.progress = []
        self.rounds = []


def make_race(candidates, open_client, cases=CASES, **limits):
    log = Log()
    race = Race(
        candidates,
        cases,
        open_client,
        RaceLimits(**{"budget": 600.0, "first_round": 4, "max_tokens": 160, **limits}),
        on_progress=log.progress.append,
        on_round=log.rounds.append,
    )
    return race, log


async def run_race(respond, candidates, cases=CASES, **limits):
    async with scripted_upstream(respond=respond) as upstream:

        def open_client(candidate, **others):
            return Client(
                upstream.url, model="m", **{**candidate.settings, "constrain": "off", "measured": False, **others}
            )

        race, log = make_race(candidates, open_client, cases, **limits)
        await race.run()
        return race, log, upstream


async def test_the_form_that_the_model_writes_wins_and_the_others_are_dropped():
    race, log, upstream = await run_race(write_calls("function_call"), (BARE_JSON, FUNCTION_CALL, FENCED_JSON))
    standings = {each.name: each for each in race.standings}

    assert (True, True, "function_call") == (race.ended, race.decided, race.winner.name)
    assert {"bare_json": 4, "function_call": 4, "fenced_json": 4} == {
        name: len(each.outcomes) for name, each in standings.items()
    }
    assert "it made no call" == standings["bare_json"].dropped
    assert ["unclear", "written", "unclear"] == [each.probe for each in race.standings]
    assert {10} == {each.prompt_tokens for each in race.standings}
    assert 3 * (1 + 4) == len(upstream.requests) == race.requests
    assert ["bare_json", "function_call", "fenced_json"] == [each.name for each in log.rounds]


async def test_a_form_other_than_the_one_that_is_shown_is_noticed_and_loses_its_later_rounds():
    """It is read all the same, so the candidate has right cases."""

    def respond(asked):
        return write_calls("hermes" if "<function_call>" in str(asked.body) else "bare_json")(asked)

    race, _, _ = await run_race(respond, (BARE_JSON, FUNCTION_CALL))
    bare_json, function_call = race.standings

    assert ("written", "other") == (bare_json.probe, function_call.probe)
    assert (4, 4) == (bare_json.right, function_call.right)
    assert "the model does not write this form when it is shown it" == function_call.dropped
    assert "bare_json" == race.winner.name


async def test_equally_good_candidates_run_all_cases():
    race, _, _ = await run_race(write_calls("each"), (FUNCTION_CALL, BARE_JSON), CASES[:10])

    assert [10, 10] == [each.right for each in race.standings]
    assert race.decided


async def test_a_model_that_never_calls_has_no_winner():
    race, _, _ = await run_race(write_nothing, (FUNCTION_CALL, BARE_JSON), CASES[:8])

    assert (None, True) == (race.winner, race.ended)


async def test_a_candidate_that_the_endpoint_refuses_is_dropped_with_the_problem():
    def respond(asked):
        return BROKEN if "<function_call>" in str(asked.body) else write_calls("bare_json")(asked)

    race, _, _ = await run_race(respond, (FUNCTION_CALL, BARE_JSON), CASES[:8])

    assert "out of memory" in race.standings[0].dropped
    assert "bare_json" == race.winner.name


async def test_an_endpoint_that_fails_for_all_ends_the_race():
    race, _, upstream = await run_race(lambda _: BROKEN, (FUNCTION_CALL, BARE_JSON))

    assert (None, True) == (race.winner, race.ended)
    assert len(upstream.requests) <= 12


async def test_an_interrupted_race_has_the_best_so_far_and_closes_its_request():
    """The first candidate has finished its round, the second one hangs."""

    def respond(asked):
        return write_calls("function_call")(asked) if "<function_call>" in str(asked.body) else Script((ROLE, HANG))

    async with scripted_upstream(respond=respond) as upstream:

        def open_client(candidate, **others):
            return Client(
                upstream.url, model="m", **{**candidate.settings, "constrain": "off", "measured": False, **others}
            )

        race, _ = make_race((FUNCTION_CALL, BARE_JSON), open_client)
        running = asyncio.create_task(race.run())
        await asyncio.wait_for(upstream.hanging.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert (False, False) == (race.ended, race.decided)
    assert ("function_call", 4) == (race.winner.name, race.winner.right)


class PacedClient:
    """A model of a given speed: it is `skill` per mille likely to be right, decided by the case, in `seconds`."""

    def __init__(self, seconds, skill):
        self._seconds = seconds
        self._skill = skill

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def complete(self, messages, tools, **sampling):
        return fold([event async for event in self.stream(messages, tools, **sampling)])

    def stream(self, messages, tools, **_: Any):
        return PacedStream(self._seconds, self._events(messages, tools))

    def _events(self, messages, tools):
        case = next(case for case in CASES if case.messages == messages)
        good = (int(case.id[-3:]) * 379) % 1000 < self._skill
        if good != any(case.expected):
            return [Text("No.")]
        calls = case.expected[0] if good else ()
        named = [(call.name, {key: values[0] for key, values in call.arguments.items()}) for call in calls]
        return [
            event
            for index, (name, arguments) in enumerate(named or [(tools[0].name, {})])
            for event in (
                ToolCallStart(str(index), name, index),
                ToolCallEnd(str(index), name, json.dumps(arguments), index),
            )
        ]


class PacedStream:
    """The events of one reply, after some seconds."""

    def __init__(self, seconds, events):
        self._seconds = seconds
        self._events = iter(events)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(self._seconds)
        self._seconds = 0.0
        try:
            return next(self._events)
        except StopIteration:
            raise StopAsyncIteration from None


FIELDS = st.lists(st.tuples(st.floats(0.01, 30), st.integers(0, 1000)), min_size=1, max_size=7)


@given(FIELDS, st.floats(0.1, 500), st.sampled_from([2, 4, 8, 16]))
def test_a_race_never_takes_longer_than_its_budget_and_always_has_its_best_so_far(field, budget, first_round):
    rows = [Candidate(str(number), {}) for number in range(len(field))]
    race, log = make_race(
        rows, lambda row, **_: PacedClient(*field[int(row.name)]), budget=budget, first_round=first_round
    )

    async def run() -> float:
        await race.run()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        taken = runner.run(run())

    assert taken <= budget * 1.000001
    assert race.ended
    assert race.decided or taken >= budget * 0.999999
    running = [each for each in race.standings if not each.dropped]
    assert running
    ready = [each for each in running if len(each.outcomes) >= first_round] or running
    assert any(each.has_right_call for each in ready) == (race.winner is not None)
    assert all(step.seconds_left <= budget for step in log.progress)


def test_a_slow_model_is_raced_as_far_as_the_time_allows():
    race, _ = make_race(COMMON_CANDIDATES, lambda _, **__: PacedClient(5.0, 900), budget=61.0)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(race.run())

    assert [4, 4, 1, 0, 0, 0, 0] == [len(each.outcomes) for each in race.standings]
    assert (True, False, "function_call, example") == (race.ended, race.decided, race.winner.name)


def test_the_estimate_of_the_time_left_falls_to_the_time_of_the_last_case():
    race, log = make_race(COMMON_CANDIDATES[:2], lambda _, **__: PacedClient(1.0, 1000), CASES[:16])
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(race.run())
    known = [step.seconds_left for step in log.progress if step.seconds_left < 600 - 4]

    assert sorted(known, reverse=True) == known
    assert 1.0 == pytest.approx(known[-1])


def test_an_error_beside_the_budget_is_raised():
    class Failing(PacedClient):
        async def __aenter__(self):
            raise UpstreamError("closed")

    race, _ = make_race((FUNCTION_CALL,), lambda _, **__: Failing(1.0, 0))
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(UpstreamError, match="closed"):
        runner.run(race.run())
