"""`fcshim serve --tune`: the race before the proxy starts."""

import asyncio
import re

import pytest

from fcshim.cli.tune import tune
from fcshim.config import Config
from fcshim.config.upstreams import UpstreamConfig
from fcshim.upstream import Upstream
from fcshim.upstream.measured import MeasuredModel, load_measured, save_measured
from fcshim.upstream.model_identity import identify
from tests.evaluate.scripted_model import write_calls, write_nothing
from tests.scripted import model_list, scripted_upstream


async def tuned(config):
    """Tune in a thread, because the scripted upstream runs in this event loop."""
    await asyncio.to_thread(tune, config)


async def key_of(upstream):
    async with Upstream(upstream.url) as client:
        identity = await identify(client, "m")
    assert identity is not None
    return identity.key


async def test_an_unknown_model_is_raced_and_what_was_found_is_kept(capsys):
    async with scripted_upstream(respond=write_calls("fenced_json"), listing=model_list("m")) as upstream:
        await tuned(Config(upstream=upstream.url))
        kept = load_measured(await key_of(upstream))
    out, err = capsys.readouterr()

    assert {"tools": "prompt", "dialect": "fenced_json", "prompt_style": "own"} == kept.settings
    assert "" == out
    assert re.search(r"raced   asked in fenced_json .* right .* left\]\n", err)
    assert "fcshim: --tune: m: fenced_json: " in err


async def test_a_known_model_is_asked_nothing(capsys):
    async with scripted_upstream(respond=write_nothing, listing=model_list("m")) as upstream:
        key = await key_of(upstream)
        save_measured(
            key,
            MeasuredModel(model="m", settings={"dialect": "hermes"}, reason="best", date="2026-01-02", complete=True),
        )
        await tuned(Config(upstream=upstream.url))

    assert [] == upstream.requests
    assert "known since 2026-01-02: best" in capsys.readouterr().err


@pytest.mark.parametrize("settings", [{}, {"dialect": "hermes"}])
async def test_what_an_interrupted_run_knows_is_not_enough(settings, capsys):
    async with scripted_upstream(respond=write_calls("bare_json"), listing=model_list("m")) as upstream:
        key = await key_of(upstream)
        save_measured(
            key, MeasuredModel(model="m", settings=settings, reason="", date="2026-01-02", complete=not settings)
        )
        await tuned(Config(upstream=upstream.url))

        assert "bare_json" == load_measured(key).settings["dialect"]


async def test_a_server_with_several_models_is_not_tuned(capsys):
    async with scripted_upstream(respond=write_nothing, listing=model_list("a", "b")) as upstream:
        await tuned(Config(upstream=upstream.url))

    assert "2 models: not tuned; fcshim doctor --model NAME tunes one" in capsys.readouterr().err


async def test_each_of_several_upstreams_is_tuned_and_one_that_is_away_keeps_nothing_from_starting(capsys):
    async with scripted_upstream(respond=write_calls("bare_json"), listing=model_list("m")) as upstream:
        urls = {"away": "http://127.0.0.1:9", "here": upstream.url}
        await tuned(Config(upstreams={name: UpstreamConfig(url=url) for name, url in urls.items()}))
        kept = load_measured(await key_of(upstream))

    assert "bare_json" == kept.settings["dialect"]
    assert re.search(r"--tune: http://127.0.0.1:9: .*cannot connect.*; serving anyway", capsys.readouterr().err)


async def test_a_model_that_never_calls_keeps_nothing_from_starting(capsys):
    async with scripted_upstream(respond=write_nothing, listing=model_list("m")) as upstream:
        await tuned(Config(upstream=upstream.url))

        assert load_measured(await key_of(upstream)) is None
    assert "no settings made a correct call" in capsys.readouterr().err
