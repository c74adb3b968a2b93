"""Settings that are loaded again while streams run."""

import asyncio
import contextlib
import json
import logging

import msgspec

from fcshim.config import Config, ModelOverrides, Secret, UpstreamConfig
from fcshim.errors import ConfigError
from fcshim.server.reload import ReloadableApp
from fcshim.server.run import listen
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.proxy import QuickServer, chat_body, http_client, post_chat, stream_documents, streamed_text
from tests.server.raw_upstream import LAST_CHUNK, SSE_HEAD, raw_upstream, stream_texts


class Settings:
    """What the file says at the moment."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def change(self, **fields) -> None:
        self.config = msgspec.structs.replace(self.config, **fields)

    def __call__(self) -> Config:
        return self.config


def several(**urls) -> dict[str, UpstreamConfig]:
    return {name: UpstreamConfig(url=url) for name, url in urls.items()}


@contextlib.asynccontextmanager
async def running_reloadable(settings: Settings):
    """Serve; yield the application and its URL."""

    app = ReloadableApp(settings(), settings)
    with listen(settings()) as listener:
        server = QuickServer(settings(), app)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        try:
            yield app, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.request_exit()
            server.exit_requested.set()
            await task


async def slow_echo(peer, upstream) -> None:
    """Stream the word that the request holds, piece by piece, with other requests between."""
    word = upstream.requests[-1].json_body["messages"][-1]["content"]
    await peer.send(SSE_HEAD)
    await peer.chunk(ROLE)
    for _ in range(10):
        await peer.chunk(text_chunk(f"{word} "))
        await asyncio.sleep(0.005)
    await peer.chunk(end_chunks())
    await peer.send(LAST_CHUNK)


class Echo:
    """A handler that knows its upstream."""

    async def __call__(self, peer) -> None:
        await slow_echo(peer, self.upstream)


async def ask_word(client, word: str, model: str) -> str:
    body = chat_body(tools=False, model=model) | {"messages": [{"role": "user", "content": word}]}
    response = await client.post("/v1/chat/completions", json=body)
    documents = stream_documents(response)

    assert (200, "DONE") == (response.status_code, documents[-1])

    return streamed_text(documents)


async def reload_under_streams(streams: int, reloads: int) -> None:
    echo, other = Echo(), Echo()
    async with raw_upstream(echo) as echo.upstream, raw_upstream(other) as other.upstream:
        both = several(a=echo.upstream.url, b=other.upstream.url)
        rows = {"m": ModelOverrides(upstream="a")}
        settings = Settings(Config(port=0, drain_timeout=0.0, upstreams=both, models=rows))
        async with running_reloadable(settings) as (app, url), http_client(url) as client:
            words = [f"word{number}" for number in range(streams)]
            asking = [asyncio.create_task(ask_word(client, word, "m")) for word in words]
            for number in range(reloads):
                await asyncio.sleep(0.01)
                row = ModelOverrides(upstream="ab"[number % 2])
                # Every third reload replaces a section, so that its connections are new, too.
                section = msgspec.structs.replace(both["a"], failures=number // 3 + 1)
                settings.change(models={"m": row}, max_retries=number % 3, upstreams={**both, "a": section})

                assert app.reload()

                await app.close_unused()
            answers = await asyncio.gather(*asking)
            await app.close_unused()

            assert 0 == app.retired_count

    assert [f"{word} " * 10 for word in words] == answers


async def test_streams_survive_reloads_unbroken_and_unmixed():
    await reload_under_streams(streams=20, reloads=20)


async def test_new_requests_get_the_new_settings():
    async with raw_upstream(stream_texts("a")) as a, raw_upstream(stream_texts("b")) as b:
        settings = Settings(Config(port=0, drain_timeout=0.0, upstream=a.url))
        async with running_reloadable(settings) as (app, url):
            before = streamed_text(stream_documents(await post_chat(url)))
            settings.change(upstream=b.url)
            app.reload()
            single = streamed_text(stream_documents(await post_chat(url)))
            settings.change(upstreams=several(a=a.url, b=b.url), api_keys=(Secret("new-key"),))
            app.reload()
            refused = await post_chat(url, model="a/m")
            sections = await post_chat(url, model="a/m", headers={"authorization": "Bearer new-key"})

    assert ["a", "b", "a"] == [before, single, streamed_text(stream_documents(sections))]
    assert 401 == refused.status_code


async def test_wrong_settings_change_nothing_and_the_log_says_why(caplog):
    def broken() -> Config:
        raise ConfigError("fcshim.toml is not TOML: line 3")

    async with raw_upstream(stream_texts("still here")) as upstream:
        settings = Settings(Config(port=0, drain_timeout=0.0, upstream=upstream.url))
        async with running_reloadable(settings) as (app, url):
            app._load = broken
            with caplog.at_level(logging.ERROR):
                reloaded = app.reload()
            answer = await post_chat(url)

    assert not reloaded
    assert "the settings stay as they are: fcshim.toml is not TOML: line 3" in caplog.text
    assert "still here" == streamed_text(stream_documents(answer))


async def test_what_was_learned_of_an_upstream_stays_with_its_section():
    settings = Settings(Config(port=0, upstreams=several(a="http://127.0.0.1:9", b="http://127.0.0.1:9")))
    app = ReloadableApp(settings(), settings)
    known = app._current.pool.members["a"]
    known.health.record_failure("away")
    settings.change(upstreams={**settings().upstreams, "b": UpstreamConfig(url="http://127.0.0.1:8")})
    app.reload()
    members = app._current.pool.members

    assert members["a"].capabilities is known.capabilities
    assert "failing" == members["a"].health.report().state
    assert "ok" == members["b"].health.report().state


async def test_what_only_a_restart_changes_is_said(caplog):
    settings = Settings(Config(port=0, upstream="http://127.0.0.1:9"))
    app = ReloadableApp(settings(), settings)
    settings.change(port=1234, memory_entries=5, max_retries=3)
    with caplog.at_level(logging.WARNING):
        app.reload()

    assert "only a restart changes: port, memory_entries" in caplog.text
    assert (0, 3) == (app.config.port, app.config.max_retries)


async def test_an_address_that_others_reach_keeps_its_keys(caplog):
    settings = Settings(Config(host="0.0.0.0", port=0, api_keys=(Secret("some-key"),), upstream="http://127.0.0.1:9"))
    app = ReloadableApp(settings(), settings)
    settings.change(api_keys=())

    assert not app.reload()
    assert "can be reached from outside" in caplog.text


async def test_earlier_settings_in_use_are_bounded(monkeypatch):
    monkeypatch.setattr("fcshim.server.reload._MAX_RETIRED", 2)
    settings = Settings(Config(port=0, upstream="http://127.0.0.1:9"))
    app = ReloadableApp(settings(), settings)
    outcomes = []
    for number in range(3):
        settings.change(max_retries=number + 2)
        outcomes.append(app.reload())
    await app.close_unused()

    assert [True, True, False] == outcomes
    assert app.reload()


async def test_a_watched_file_is_loaded_once_it_no_longer_changes(tmp_path, monkeypatch):
    monkeypatch.setattr("fcshim.server.reload._POLL", 0.01)
    file = tmp_path / "fcshim.json"
    file.write_text("{}")
    loaded = asyncio.Event()
    config = Config(port=0, upstream="http://127.0.0.1:9")

    def load() -> Config:
        loaded.set()
        return msgspec.structs.replace(config, **json.loads(file.read_text()))

    app = ReloadableApp(config, load)
    task = asyncio.create_task(app.run(file))
    await asyncio.sleep(0.05)
    unchanged = not loaded.is_set()
    file.write_text('{"max_retries": 4}')
    await asyncio.wait_for(loaded.wait(), 60)
    task.cancel()

    assert unchanged
    assert 4 == app.config.max_retries
