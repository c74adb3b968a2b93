"""Whether the upstream's native tools work for a model: what it said, and what its replies showed.

Rule: nothing is asked here. What the upstream then does overrides its claim. A server error after which the request
succeeded without native tools counts for an hour, since the reason may have been another one.
"""

import logging
import math
import re
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.config import ModelConfig
from fcshim.errors import FcshimError
from fcshim.messages import Request, uses_tools
from fcshim.pipeline.backends import backend_of_owner
from fcshim.upstream import Upstream
from fcshim.upstream.model_resolution import BY_SETTING, ModelEvidence, ModelResolver

Value = TypeVar("Value")

logger = logging.getLogger("fcshim.upstream")

MAX_MODELS = 1024
"""Models that are remembered. Clients choose the names, so the table must not grow without bound."""
UNSTATED_PERIOD = 3_600.0
"""Seconds for which something counts as refused whose refusal was not stated; then one request asks again."""
_UNRELATED_STATUSES = frozenset({401, 403, 413, 429, 503, 504})
"""Errors of authentication, size, rate or load; they do not mean that tools are unsupported, whatever the text says."""
_MENTIONS_TOOLS = re.compile(r"\btools?\b|\btool_|function.?call|jinja|\broles?\b", re.IGNORECASE)
"""Words in errors of upstreams without tools, such as llama-server's "tools param requires --jinja flag", or without
the role `tool`."""


def remember(table: dict[str, Value], model: str, value: Value) -> Value:
    """Keep a value for a model, and return it."""
    if len(table) >= MAX_MODELS and model not in table:
        table.clear()
    table[model] = value
    return value


class ToolsChoice(msgspec.Struct, frozen=True):
    """Whether requests for a model use native tools, and the reason, as a phrase."""

    native: bool
    reason: str

    @property
    def name(self) -> str:
        """`native` or `prompt`."""
        return "native" if self.native else "prompt"


class ToolSupport:
    """What is known of one upstream's native tools, by model. `clock` counts seconds."""

    def __init__(self, upstream: Upstream, models: ModelResolver, clock: Callable[[], float] = time.monotonic) -> None:
        self._upstream = upstream
        self._models = models
        self._clock = clock
        self._refusals: dict[str, str] = {}  # the message with which the upstream refused native tools
        self._failures: dict[str, str] = {}  # how native tools failed; empty: they have made a call
        self._errors: dict[str, tuple[str, float]] = {}  # a server error, and until when it counts

    def forget(self) -> None:
        """Forget what was found out about models."""
        self._refusals.clear()
        self._failures.clear()
        self._errors.clear()

    def uses_native(self, request: Request, model: ModelConfig) -> bool:
        """Return whether the request uses the upstream's native tools."""
        if model.tools == "auto" and uses_tools(request):
            return self.choose(request.model, model).native
        return model.tools == "native"

    def choose(self, name: str, model: ModelConfig) -> ToolsChoice:
        """Choose between native tools and the prompt for the model that the upstream gets as `name`.

        `auto` follows the first evidence there is: a refusal, a measurement, the replies in this process, a trial of
        the markers of its chat template, its server's claim. `models.resolve` gathers it; nothing is asked here.
        """
        if model.tools != "auto":
            return ToolsChoice(model.tools == "native", BY_SETTING)
        listed = self._models.listed_name(name)
        if refusal := self._refusal(listed):
            return ToolsChoice(native=False, reason=refusal)
        evidence = self._models.known(name)
        if evidence is not None and "tools" in evidence.settings:
            return ToolsChoice(evidence.settings["tools"] == "native", "a measurement")
        if listed in self._failures:
            failure = self._failures[listed]
            return ToolsChoice(not failure, f"its replies: {failure or 'its server has read a call'}")
        if evidence is not None and evidence.refuted:
            return ToolsChoice(native=False, reason=f"a trial: it does not write its template's {evidence.refuted}")
        return self._claimed(evidence)

    def _refusal(self, listed: str) -> str:
        if listed in self._refusals:
            return f"a refusal: {self._refusals[listed]}"
        message, until = self._errors.get(listed, ("", -math.inf))
        return f"a server error with tools: {message}" if self._clock() < until else ""

    def _claimed(self, evidence: ModelEvidence | None) -> ToolsChoice:
        """Choose by what the server says. One that says nothing might ignore tools silently, so it gets the prompt."""
        if self._upstream.kind.native_tools:
            return ToolsChoice(native=True, reason="its API")
        if evidence is not None and evidence.native_tools is not None:
            said = "its server supports" if evidence.native_tools else "its server does not support"
            return ToolsChoice(evidence.native_tools, f"{said} tools for it")
        backend = None if evidence is None else backend_of_owner(evidence.owner)
        if backend is not None and backend.native_tools:
            return ToolsChoice(native=True, reason=f"its server is {backend.name}")
        if _is_on_internet(self._upstream.url):
            return ToolsChoice(native=True, reason="its server is a service on the internet")
        return ToolsChoice(native=False, reason="its server does not say that it supports tools")

    def record_refusal(self, model: str, message: str) -> None:
        """Record that the upstream refuses native tools for a model."""
        logger.info("%s: tools are written into the prompt from now on: %s", model, message)
        remember(self._refusals, self._models.listed_name(model), message)

    def observer(self, model: str) -> Callable[[str], None]:
        """Return a function that records what a reply says about native tools: how they failed, or (empty) a call.

        Once the server has read a call, and if native tools were measured to be best, a failure is the model's own.
        """

        def observe(failure: str) -> None:
            name, evidence = self._models.listed_name(model), self._models.known(model)
            measured = evidence is not None and "tools" in evidence.settings
            if measured or name in self._failures:
                return
            if failure:
                logger.info("%s: tools are written into the prompt from now on: %s", model, failure)
            remember(self._failures, name, failure)

        return observe

    def record_error(self, model: str, message: str) -> None:
        """Record that a request ended in a server error with native tools, and succeeded without them."""
        logger.info("%s: tools are written into the prompt for an hour: %s", model, message)
        remember(self._errors, self._models.listed_name(model), (message, self._clock() + UNSTATED_PERIOD))


def refuses_tools(error: FcshimError) -> bool:
    """Return whether an error response says that the upstream does not support tools."""
    if error.status in _UNRELATED_STATUSES or error.kind == CONTEXT_LENGTH:
        return False
    return bool(_MENTIONS_TOOLS.search(error.message))


def _is_on_internet(url: str) -> bool:
    """Return whether an address is that of a public service: such services have tool calling, or refuse tools."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_name = "." in host and host.rpartition(".")[2].isalpha()
    return parts.scheme == "https" and is_name and not host.endswith((".local", ".internal", ".lan"))
