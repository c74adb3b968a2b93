"""The doctor against a scripted model: its diagnosis, and what it keeps for the model."""

import asyncio

import pytest

from fcshim.config import Config
from fcshim.errors import ConfigError, UpstreamError
from fcshim.evaluate.doctor import Doctor, DoctorCallbacks, DoctorOptions, format_settings
from fcshim.evaluate.probes import PROBES
from fcshim.upstream import Upstream
from fcshim.upstream.measured import MeasuredModel, load_measured, save_measured
from fcshim.upstream.model_identity import identify
from tests.evaluate.scripted_model import case_of, write_calls, write_nothing
from tests.scripted import HANG, ROLE, Script, model_list, scripted_upstream

DATE = "2026-11-24"
SILENT = DoctorCallbacks(*[lambda _: None] * 4)
QUICK = DoctorOptions(quick=True, cases=8)


BARE_JSON = {"tools": "prompt", "dialect": "bare_json", "prompt_style": "own"}


async def diagnose(respond, options=QUICK, date=DATE):
    """Run the doctor; return the diagnosis, what is kept for the model, and the upstream."""
    async with scripted_upstream(respond=respond, listing=model_list("m")) as upstream:
        doctor = Doctor(Config(upstream=upstream.url), options, SILENT)
        await doctor.run()
        doctor.keep(date)
        return doctor.diagnosis(), load_measured(await key_of(upstream)), upstream


async def key_of(upstream):
    async with Upstream(upstream.url) as client:
        identity = await identify(client, "m")
    assert identity is not None
    return identity.key


async def test_the_best_settings_are_recommended_and_kept():
    diagnosis, kept, upstream = await diagnose(write_calls("bare_json"))

    assert (True, True, True, "bare_json") == (diagnosis.works, diagnosis.complete, diagnosis.kept, diagnosis.dialect)
    assert BARE_JSON == kept.settings
    assert (True, DATE) == (kept.complete, kept.date)
    assert "written" == kept.probes["bare_json"]
    assert kept.reason == diagnosis.reason
    assert kept.reason.startswith("bare_json: 4 of 4 right (calls 2 of 2, no call 2 of 2), 10 tokens a prompt")
    assert 'dialect = "bare_json"' in format_settings(diagnosis)
    assert diagnosis.requests == sum(asked.path == "/v1/chat/completions" for asked in upstream.requests)


@pytest.mark.model_pages
async def test_an_earlier_result_changes_nothing_in_the_race():
    """Native tools were once found to be best, and are used by one candidate only."""
    props = b'{"default_generation_settings": {}, "chat_template": "{% if tools %}"}'
    pages = {"/v1/models": model_list("m"), "/props": Script((props,)), "/props?model=m": Script((props,))}
    async with scripted_upstream(respond=write_calls("bare_json"), pages=pages) as upstream:
        key = await key_of(upstream)
        earlier = MeasuredModel(model="m", settings={"tools": "native"}, reason="", date=DATE, complete=True)
        save_measured(key, earlier)
        doctor = Doctor(Config(upstream=upstream.url), QUICK, SILENT)
        await doctor.run()
        doctor.keep(DATE)
        kept = load_measured(key)
    asked = [each for each in upstream.requests if each.path == "/v1/chat/completions"]  # others count tokens
    raced = [each for each in asked if case_of(each) is not None]
    native = sum("tools" in each.body for each in raced)

    assert BARE_JSON == kept.settings
    assert 1 + 4 == native  # the probe and the first round of the candidate `native`


async def test_a_quick_run_has_the_quick_probes_only():
    diagnosis, _, _ = await diagnose(write_calls("bare_json"))

    quick = [probe.name for probe in PROBES if probe.quick and probe.name != "measured_context"]  # only on demand

    assert quick == [finding.probe for finding in diagnosis.findings]


async def test_nothing_is_kept_of_a_model_that_never_calls():
    diagnosis, kept, _ = await diagnose(write_nothing)

    assert (False, False, True, None) == (diagnosis.works, diagnosis.kept, diagnosis.complete, kept)
    assert "dialect" not in {choice.setting for choice in diagnosis.choices}


async def test_the_budget_ends_the_race_with_the_best_so_far():
    """Only requests with the form's sign are answered; the next candidate hangs until the budget is used."""

    def respond(asked):
        is_race = case_of(asked) is not None
        shown = "<function_call>" in str(asked.body)
        return write_calls("function_call")(asked) if shown or not is_race else Script((ROLE, HANG))

    diagnosis, kept, _ = await diagnose(respond, DoctorOptions(quick=True, budget=3.0))

    assert ("function_call, example", True, False) == (diagnosis.best, diagnosis.complete, diagnosis.decided)
    assert [4, 4, 0] == [each.cases for each in diagnosis.candidates[:3]]
    assert kept.complete


async def interrupt(earlier=None):
    """Interrupt a race after the first candidate's round; return the diagnosis and what is kept."""

    def respond(asked):
        is_race = case_of(asked) is not None
        shown = "<function_call>" in str(asked.body)
        return write_calls("function_call")(asked) if shown or not is_race else Script((ROLE, HANG))

    async with scripted_upstream(respond=respond, listing=model_list("m")) as upstream:
        key = await key_of(upstream)
        if earlier is not None:
            save_measured(key, earlier)
        doctor = Doctor(Config(upstream=upstream.url), DoctorOptions(quick=True), SILENT)
        running = asyncio.create_task(doctor.run())
        await asyncio.wait_for(upstream.hanging.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        doctor.keep(DATE)
        return doctor.diagnosis(), load_measured(key)


@pytest.mark.parametrize("complete", [None, False])
async def test_an_interrupted_run_reports_and_keeps_what_is_known_so_far(complete):
    earlier = None if complete is None else measured(complete=complete)
    diagnosis, kept = await interrupt(earlier)

    assert ("function_call, example", False, True) == (diagnosis.best, diagnosis.complete, diagnosis.kept)
    assert ("function_call", False) == (kept.settings["dialect"], kept.complete)
    assert {"function_call": "written"}.items() <= kept.probes.items()
    assert ("hermes" in kept.probes) == (earlier is not None)


async def test_an_interrupted_run_does_not_replace_a_whole_one():
    whole = measured(complete=True)
    diagnosis, kept = await interrupt(whole)

    assert (whole, False, "function_call, example") == (kept, diagnosis.kept, diagnosis.best)


def measured(*, complete):
    settings = {"dialect": "hermes"}
    return MeasuredModel(
        model="m", settings=settings, reason="", date=DATE, complete=complete, probes={"hermes": "written"}
    )


async def test_mistakes_and_unreachable_endpoints_are_errors():
    with pytest.raises(ConfigError, match="there is no category 'simpel'"):
        Doctor(Config(), DoctorOptions(categories=("simpel",)), SILENT)
    doctor = Doctor(Config(upstream="http://127.0.0.1:9"), DoctorOptions(), SILENT)
    with pytest.raises(UpstreamError, match="cannot connect"):
        await doctor.run()

    assert not doctor.connected
