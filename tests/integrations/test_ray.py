"""Ray Serve with two replicas behind its proxy: streams of every API, a replica that is killed, one that is removed.

Ray runs in an environment of its own (`make test-scale`); without it, these tests are skipped. `test_ray_options.py`
tests what needs no Ray.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from fcshim.events import Stop
from fcshim.reply import fold
from tests.codecs.test_pairs import reply_summary
from tests.engine.process import free_port
from tests.integrations.ray_cluster import ADDRESS
from tests.integrations.ray_environment import BIN, ROOT, missing
from tests.scripted import ROLE, event, text_chunk
from tests.server.mcp_proxy import ADD, stdio_server
from tests.server.proxy import CHAT, chat_body, http_client, post_request, raw_connection
from tests.server.raw_upstream import (
    LAST_CHUNK,
    fixed_reply,
    hang,
    paused_stream,
    raw_reply,
    raw_upstream,
    stream_chunks,
    stream_texts,
    stream_then,
)
from tests.server.test_every_api import APIS, CALLS, EXPECTED, post

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRAINING = "Waiting for an additional"
"""What Serve logs of a replica that ends its requests before it ends."""
APP = "fcshim.integrations.ray:app"
REPLICA = "ray::ServeReplica:"
SECONDS = 120.0
"""Limit for whatever Ray does: it starts in 15 s on two idle cores."""
EXAMPLES = sorted((ROOT / "docs" / "deploy" / "ray").glob("*.yaml"))
CHECK = """
import sys, yaml
from ray.serve.schema import ServeDeploySchema
for file in sys.argv[1:]:
    ServeDeploySchema.model_validate(yaml.safe_load(open(file)))
"""
RESPONSES = "/v1/responses"
STREAMS = 16
"""Serve sends a request to the less busy of two replicas: each of them gets some."""
NOT_FOUND = fixed_reply(404, b"{}")


class Stage:
    """The running application: its URL, its upstream and what that plays next, and the cluster's processes."""

    def __init__(self, upstream, settings, log):
        self.upstream = upstream
        self.settings = settings
        self.log = log
        self.play = NOT_FOUND
        self.process = None
        self.address = self.url = ""

    @property
    def replicas(self):
        """The processes of the replicas."""
        return [pid for pid in descendants(self.process.pid) if command_of(pid).startswith(REPLICA)]


def descendants(pid):
    """Return the ids of all processes below one."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, file.read_text("utf-8").split()):
                found += [child, *descendants(child)]
    return found


def command_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


async def until(condition):
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory):
    """Serve two replicas, with an MCP server each and a store that they share."""
    if problem := missing():
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("settings")

    async def play(peer):
        asks_what_it_is = found.upstream.requests[-1].request_line.startswith("GET")
        await (NOT_FOUND if asks_what_it_is else found.play)(peer)

    async with raw_upstream(play) as upstream:
        settings = {"FCSHIM_CONFIG": str(write_settings(folder, upstream.url))}
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        found = Stage(upstream, settings, folder / "log")
        async with cluster(found.log, **settings) as (found.process, found.address, found.url):
            await deploy(found, "num_replicas=2")
            yield found


def write_settings(folder, upstream):
    servers, settings = folder / "servers.json", folder / "fcshim.toml"
    servers.write_text(json.dumps({"mcpServers": {"f": {**stdio_server("friendly"), "trust": "annotations"}}}))
    values = {"upstream": upstream, "mcp": servers, "pins": folder / "pins.json", "store": f"sqlite:{folder / 'store'}"}
    settings.write_text("".join(f"{name} = '{value}'\n" for name, value in values.items()))
    return settings


@contextlib.asynccontextmanager
async def cluster(log, **settings):
    """Run a cluster that writes to `log`; yield its process, its address and the URL of its proxy.

    All of its processes have ended at the end of the block.
    """
    folder = tempfile.mkdtemp(prefix="ray-")  # short: the paths of its sockets are limited to 107 bytes
    port = free_port()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(BIN / "python", Path(__file__).parent / "ray_cluster.py", folder, str(port)),
            env=environment(**settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    started = []
    try:
        async with asyncio.timeout(SECONDS):
            while not (line := (await process.stdout.readline()).decode()).startswith(ADDRESS):
                assert line, log.read_text("utf-8")
        yield process, line.removeprefix(ADDRESS).strip(), f"http://127.0.0.1:{port}"
    finally:
        started += descendants(process.pid)
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), SECONDS)
        for pid in [process.pid, *started]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def environment(**settings):
    own = {"RAY_USAGE_STATS_ENABLED": "0", "NO_PROXY": "127.0.0.1", **settings}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("FCSHIM_")}, **own}


async def deploy(stage, *arguments):
    await run_serve(stage, APP, *arguments)


async def run_serve(stage, *arguments):
    """Run the command of the documentation; the application stays when it has ended."""
    process = await asyncio.create_subprocess_exec(
        *(BIN / "serve", "run", "--non-blocking", "--address", stage.address, *arguments),
        env=environment(**stage.settings),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), SECONDS)

    assert 0 == process.returncode, errors.decode()
    assert b"Traceback" not in errors, errors.decode()  # where it fails to deploy, the status is 0 all the same


@APIS
async def test_the_streams_of_every_api_come_through_serves_proxy(stage, codec):
    stage.play = stream_chunks(CALLS)
    response = await post(stage.url, codec)

    assert 200 == response.status_code
    assert EXPECTED == reply_summary(events_of(codec, response.content))
    assert 1 == len(response.headers.get_list("x-request-id"))


@APIS
async def test_an_upstream_that_breaks_off_ends_the_stream_with_an_error(stage, codec):
    stage.play = stream_then(ROLE, text_chunk("Once"), event(error={"message": "slot lost"}), then=raw_reply(b""))
    events = events_of(codec, (await post(stage.url, codec)).content)
    reply = fold(events)

    assert "Once" == reply.text
    assert "slot lost" in reply.error.message
    assert not any(isinstance(found, Stop) for found in events)


async def test_a_client_that_leaves_ends_the_request_to_the_upstream(stage):
    stage.play = stream_then(ROLE, text_chunk("Once"), then=hang)
    async with raw_connection(stage.url) as (reader, writer):
        writer.write(post_request(stage.url, chat_body()))
        await reader.readuntil(b"Once")
        stage.upstream.client_left.clear()

    await asyncio.wait_for(stage.upstream.client_left.wait(), SECONDS)


async def test_each_replica_has_mcp_servers_of_its_own(stage):
    plays = [stream_texts(ADD), stream_texts("It is 3.")]

    async def play(peer):
        await plays.pop(0)(peer)

    stage.play = play
    async with http_client(stage.url) as client:
        reply = (await client.post(CHAT, json=chat_body(stream=False, tools=False))).json()
    servers = [[pid for pid in descendants(replica) if "friendly.py" in command_of(pid)] for replica in stage.replicas]

    assert "It is 3." == reply["choices"][0]["message"]["content"]
    assert "\n3\n" in stage.upstream.requests[-1].json_body["messages"][-1]["content"]
    assert [1, 1] == list(map(len, servers))


async def test_a_killed_replica_costs_its_streams_and_nothing_else(stage):
    stage.play = stream_texts("One.")
    async with http_client(stage.url) as client:
        first = [(await client.post(RESPONSES, json=response_body("1"))).json() for _ in range(STREAMS)]
    go_on = asyncio.Event()
    stage.play = paused_stream(go_on)
    async with contextlib.AsyncExitStack() as stack:
        streams = await open_streams(stack, stage.url)
        victim, _ = stage.replicas
        os.kill(victim, signal.SIGKILL)
        await until(lambda: victim not in stage.replicas)
        stage.play = stream_texts("Two.")
        async with http_client(stage.url) as client:
            asks = [response_body("2", previous_response_id=each["id"]) for each in first]
            later = [(await client.post(RESPONSES, json=each)).json() for each in asks]
        go_on.set()
        ends = [await asyncio.wait_for(reader.read(), SECONDS) for reader in streams]
        await until(lambda: len(stage.replicas) == 2)
    whole = [end for end in ends if b" upon" in end]
    cut = [end for end in ends if b" upon" not in end]

    assert ["Two."] * STREAMS == [each["output"][0]["content"][0]["text"] for each in later]
    assert all(b"[DONE]" in end for end in whole)
    assert not any(b"[DONE]" in end or b'finish_reason":"' in end or end.endswith(LAST_CHUNK) for end in cut)
    assert whole
    assert cut


async def test_a_new_deployment_ends_old_replicas_when_their_streams_have_ended(stage):
    go_on = asyncio.Event()
    stage.play = paused_stream(go_on)
    old = set(stage.replicas)
    async with contextlib.AsyncExitStack() as stack:
        streams = await open_streams(stack, stage.url)
        deployment = asyncio.create_task(deploy(stage, "num_replicas=1"))  # it waits for the streams
        await until(lambda: DRAINING in stage.log.read_text("utf-8"))
        go_on.set()
        ends = [await asyncio.wait_for(reader.read(), SECONDS) for reader in streams]
        await deployment
    await until(lambda: len(stage.replicas) == 1)
    servers = [pid for pid in descendants(stage.process.pid) if "friendly.py" in command_of(pid)]

    assert [True] * STREAMS == [b" upon" in end and b"[DONE]" in end for end in ends]
    assert not old & set(stage.replicas)
    assert 1 == len(servers)


async def test_replicas_follow_the_requests_that_run(stage):
    go_on = asyncio.Event()
    stage.play = paused_stream(go_on)
    await deploy(stage, "num_replicas=1")  # Serve would keep those that there are for 10 minutes
    await deploy(stage, "min_replicas=1", "max_replicas=2", "target_ongoing_requests=2")
    await until(lambda: len(stage.replicas) == 1)
    async with contextlib.AsyncExitStack() as stack:
        streams = await open_streams(stack, stage.url)
        await until(lambda: len(stage.replicas) == 2)  # after 30 s, Serve's default
        go_on.set()
        ends = [await asyncio.wait_for(reader.read(), SECONDS) for reader in streams]

    assert [True] * STREAMS == [b" upon" in end and b"[DONE]" in end for end in ends]


async def test_the_example_file_is_deployed_below_any_path(stage, tmp_path):
    stage.play = stream_texts("Hello.")
    example = yaml.safe_load(EXAMPLES[-1].read_text("utf-8"))
    (application,) = example["applications"]
    application |= {"route_prefix": "/shim", "runtime_env": {"env_vars": stage.settings}}
    file = tmp_path / "serve.yaml"
    file.write_text(yaml.safe_dump(example), "utf-8")
    await run_serve(stage, str(file))
    async with http_client(f"{stage.url}/shim") as client, asyncio.timeout(SECONDS):
        while (await client.get("/health")).status_code != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
        reply = (await client.post(CHAT, json=chat_body(stream=False))).json()

    assert "Hello." == reply["choices"][0]["message"]["content"]


async def test_serve_accepts_every_example_file():
    if problem := missing():
        pytest.skip(problem)
    process = await asyncio.create_subprocess_exec(
        *(BIN / "python", "-c", CHECK, *map(str, EXAMPLES)), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()

    assert 0 == process.returncode, errors.decode()


def events_of(codec, content):
    decoder = codec.decoder()
    return [found for _, found in decoder.feed(content) + decoder.close()]


def response_body(text, **fields):
    return {"model": "m", "input": text, **fields}


async def open_streams(stack, url):
    streams = []
    for _ in range(STREAMS):
        reader, writer = await stack.enter_async_context(raw_connection(url))
        writer.write(post_request(url, chat_body(), CHAT, "Connection: close"))
        await asyncio.wait_for(reader.readuntil(b'"Once"'), SECONDS)
        streams.append(reader)
    return streams
