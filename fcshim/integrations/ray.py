"""The proxy as an application of Ray Serve: `serve run fcshim.integrations.ray:app`.

Rule: Serve decides how many replicas there are and which of them gets a request; the settings are those of `fcshim
serve`. A replica makes its application for itself, because clients, connections and MCP servers cannot be sent to
another process. Options of Serve that are not settings are arguments of `app`, under Serve's names.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fcshim.config import Config, parse_store_address
from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.extras import naming_extra

if TYPE_CHECKING:
    from ray.serve import Application

    from fcshim.server.app import App
    from fcshim.server.client_connection import Message, Receive, Scope, Send

logger = logging.getLogger("fcshim.server")

_REQUEST_ID = b"x-request-id"
_Count = Annotated[int, Meta(gt=0)]


class ServeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `app`: options of Serve's deployment, by their names there."""

    num_replicas: _Count | None = None
    """A fixed number of replicas; without it, Serve starts and ends them by the requests that run."""
    min_replicas: _Count | None = None
    max_replicas: _Count | None = None
    target_ongoing_requests: Annotated[float, Meta(gt=0)] = 40
    """Requests that run in each replica before another one is started: streams of 30 tokens a second for 0.6 cores."""
    max_ongoing_requests: _Count = 200
    """Requests that run in a replica at a time. Serve's own default is 5, for replicas that hold a model."""
    max_queued_requests: _Count = 1000
    """Requests that wait in one of Serve's proxies; beyond that it answers 503 by itself."""
    num_cpus: Annotated[float, Meta(ge=0)] = 1
    """Cores that are reserved for a replica; it uses no more than one."""


_MIN_REPLICAS, _MAX_REPLICAS = 1, 8


def app(args: Mapping[str, JSON]) -> "Application":
    """Build the application for Serve, which passes the arguments of `serve run`, or those in `args`.

    The settings are those of this process (`FCSHIM_*`, and the file that `FCSHIM_CONFIG` names), and of each replica's.
    Raises `ConfigError`.
    """
    with naming_extra("ray"):
        from ray import serve  # noqa: PLC0415 - large, and optional

        from fcshim.server.run import config_from_env  # noqa: PLC0415 - its extra may be missing

    config = config_from_env()
    options = deployment_options(args, config)
    if options.get("num_replicas") != 1 and parse_store_address(config.store).kind == "memory":
        logger.warning(
            "each replica remembers replies and turns for itself: a follow-up (previous_response_id) that reaches "
            "another replica is refused; share them with FCSHIM_STORE"
        )
    return serve.deployment(**options)(serve.ingress(make_replica_app)(Replica)).bind()


class Replica:
    """The deployment class: answers Serve's health checks."""

    app: "ReplicaApp"
    """Set by Serve."""

    async def check_health(self) -> None:
        """Raise if `/health` does not answer; Serve then replaces this replica."""
        import httpx  # noqa: PLC0415 - its extra may be missing

        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", trust_env=False) as client:
            (await client.get("/health")).raise_for_status()


class ReplicaApp:
    """The application of one replica, without the header of the request's id: Serve adds it to every response."""

    def __init__(self, served: "App") -> None:
        self._served = served

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one ASGI scope."""

        async def send_without_id(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [each for each in message["headers"] if each[0] != _REQUEST_ID]
            await send(message)

        await self._served(scope, receive, send_without_id)


def make_replica_app() -> ReplicaApp:
    """Make the application of one replica, which logs as `fcshim serve` does. Raises `ConfigError`."""
    from fcshim.server.request_log import configure_request_log  # noqa: PLC0415 - its extra may be missing
    from fcshim.server.run import app_from_env, silence_library_logs  # noqa: PLC0415 - see above

    application = app_from_env()
    configure_request_log(application.config.log_level.upper(), application.config.log_format)
    silence_library_logs()
    return ReplicaApp(application)


def deployment_options(args: Mapping[str, JSON], config: Config) -> dict[str, JSON]:
    """Return the options of Serve's deployment. Raises `ConfigError`."""
    try:
        options = msgspec.convert(args, ServeOptions, strict=False)  # arguments on the command line are strings
        scale = _scale(options)
    except ValueError as error:
        raise ConfigError(f"the arguments of fcshim.integrations.ray:app: {error}") from error
    if config.inspect and options.num_replicas != 1:
        raise ConfigError("FCSHIM_INSPECT shows the requests of one process: expected it with num_replicas=1")
    return {
        "name": "fcshim",
        **scale,
        "max_ongoing_requests": options.max_ongoing_requests,
        "max_queued_requests": options.max_queued_requests,
        "ray_actor_options": {"num_cpus": options.num_cpus},
        "graceful_shutdown_timeout_s": config.drain_timeout,
    }


def _scale(options: ServeOptions) -> dict[str, JSON]:
    """Return the options that say how many replicas there are. Raises `ValueError`."""
    if options.num_replicas is not None:
        if options.min_replicas or options.max_replicas:
            raise ValueError("expected num_replicas, or min_replicas and max_replicas")
        return {"num_replicas": options.num_replicas}
    minimum = options.min_replicas or _MIN_REPLICAS
    maximum = options.max_replicas or max(_MAX_REPLICAS, minimum)
    if maximum < minimum:
        raise ValueError(f"expected max_replicas >= min_replicas, got {maximum} and {minimum}")
    if options.target_ongoing_requests > options.max_ongoing_requests:
        raise ValueError("expected max_ongoing_requests >= target_ongoing_requests, or nothing would be scaled")
    scaling = {
        "min_replicas": minimum,
        "max_replicas": maximum,
        "target_ongoing_requests": options.target_ongoing_requests,
    }
    return {"autoscaling_config": scaling}
