"""What of the integration with Ray Serve needs no Ray: arguments, health, the application of a replica."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from fcshim.config import Config, settings
from fcshim.errors import ConfigError
from fcshim.integrations.ray import Replica, ReplicaApp, deployment_options
from fcshim.server.app import create_app

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "deploy" / "ray").glob("*.yaml"))
CONFIG = Config(upstream="http://127.0.0.1:1", drain_timeout=90.0)
WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
from fcshim.errors import MissingExtraError
from fcshim.integrations.ray import app
try:
    app({})
except MissingExtraError as error:
    print(error.message)
"""


def test_without_arguments_replicas_follow_the_requests():
    options = deployment_options({}, CONFIG)

    assert {"min_replicas": 1, "max_replicas": 8, "target_ongoing_requests": 40} == options["autoscaling_config"]
    assert "num_replicas" not in options
    assert 90.0 == options["graceful_shutdown_timeout_s"]
    assert options["max_ongoing_requests"] > 40


def test_a_command_line_gives_texts():
    fixed = deployment_options({"num_replicas": "2", "num_cpus": "0.5", "max_ongoing_requests": "30"}, CONFIG)
    scaled = deployment_options({"min_replicas": "2", "target_ongoing_requests": "7.5"}, CONFIG)

    assert (2, {"num_cpus": 0.5}, 30) == tuple(
        fixed[name] for name in ("num_replicas", "ray_actor_options", "max_ongoing_requests")
    )
    assert "autoscaling_config" not in fixed
    assert {"min_replicas": 2, "max_replicas": 8, "target_ongoing_requests": 7.5} == scaled["autoscaling_config"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"replicas": "2"}, "Object contains unknown field `replicas`"),
        ({"num_replicas": "two"}, r"Expected `int \| null`, got `str` - at `\$.num_replicas`"),
        ({"num_replicas": "0"}, r"Expected `int` >= 1 - at `\$.num_replicas`"),
        ({"min_replicas": "3", "max_replicas": "2"}, "expected max_replicas >= min_replicas"),
        ({"num_replicas": "2", "max_replicas": "3"}, "expected num_replicas, or min_replicas and max_replicas"),
        ({"target_ongoing_requests": "500"}, "expected max_ongoing_requests >= target_ongoing_requests"),
    ],
)
def test_wrong_arguments_say_what_was_expected(args, message):
    with pytest.raises(ConfigError, match=f"^the arguments of fcshim.integrations.ray:app: {message}"):
        deployment_options(args, CONFIG)


def test_the_inspector_needs_a_single_replica():
    inspected = Config(upstream="http://127.0.0.1:1", inspect=True)

    assert 1 == deployment_options({"num_replicas": "1"}, inspected)["num_replicas"]
    with pytest.raises(ConfigError, match="expected it with num_replicas=1"):
        deployment_options({}, inspected)


def test_without_ray_the_extra_is_named():
    done = subprocess.run([sys.executable, "-c", WITHOUT_RAY], capture_output=True, text=True, timeout=60, check=False)

    assert "the package 'ray' is missing: pip install 'fcshim[ray]'\n" == done.stdout, done.stderr


async def test_a_replica_is_healthy_while_its_application_answers():
    async def fail(scope, receive, send):
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    served = create_app(Config(upstream="http://127.0.0.1:1"))
    replica = Replica()
    replica.app = ReplicaApp(served)
    await replica.check_health()
    await served.aclose()
    replica.app = ReplicaApp(fail)

    with pytest.raises(httpx.HTTPStatusError):
        await replica.check_health()


async def test_serve_adds_the_id_of_a_request_and_the_replica_does_not():
    served = create_app(Config(upstream="http://127.0.0.1:1"))
    heads = []
    for app in (served, ReplicaApp(served)):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            heads.append((await client.get("/health")).headers)
    await served.aclose()

    assert [True, False] == ["x-request-id" in head for head in heads]
    assert ["fcshim", "fcshim"] == [head["server"] for head in heads]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_name_existing_settings_and_arguments(file):
    variables = {setting.env for setting in settings()} | {"FCSHIM_CONFIG"}
    (ours,) = (
        each
        for each in yaml.safe_load(file.read_text("utf-8"))["applications"]
        if each["import_path"] == "fcshim.integrations.ray:app"
    )

    assert set(ours["runtime_env"]["env_vars"]) <= variables
    assert deployment_options(ours.get("args", {}), CONFIG)["name"] == "fcshim"
