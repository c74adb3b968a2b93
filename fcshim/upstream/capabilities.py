"""Detects and remembers what one upstream supports: models, native tools, backend and constraints.

Rule: the upstream is asked once per question, and only when a request needs the answer; what it then does overrides its
claim. What only follows from the success of another request (without images, without native tools) holds for an hour,
since the reason may have been another one. A refused constraint is not sent again; after three refusals and no success,
no constraint is sent at all.
"""

import asyncio
import contextlib
import logging
import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from fcshim.codecs.model_info import read_page
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.config import ModelConfig
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request, requested_schema, uses_tools
from fcshim.pipeline.backends import BACKENDS, GENERIC, OFF, Backend, backend_of_api, backend_of_owner, get_backend
from fcshim.pipeline.omissions import Omission
from fcshim.pipeline.resumption import PREFILL
from fcshim.sanitize import sanitize_line
from fcshim.upstream import Upstream
from fcshim.upstream.detection import PAGE_TIMEOUT, detect, matches
from fcshim.upstream.model_pages import props_path
from fcshim.upstream.model_resolution import BY_SETTING, ModelEvidence, ModelResolver
from fcshim.upstream.prompt_reading import ModelCounts, PromptFronts, PromptLoss, SentPrompt, VaryingFront
from fcshim.upstream.question import Translations
from fcshim.upstream.token_count import count_exactly

Value = TypeVar("Value")

logger = logging.getLogger("fcshim.upstream")

AUTO = "auto"
_MAX_MODELS = 1_024
"""Models that are remembered. Clients choose the names, so the table must not grow without bound."""
_UNSTATED_PERIOD = 3_600.0
"""Seconds for which something counts as refused whose refusal was not stated; then one request asks again."""
_UNRELATED_STATUSES = frozenset({401, 403, 413, 429, 503, 504})
"""Errors of authentication, size, rate or load; they do not mean that tools are unsupported, whatever the text says."""
_MENTIONS_TOOLS = re.compile(r"\btools?\b|\btool_|function.?call|jinja|\broles?\b", re.IGNORECASE)
"""Words in errors of upstreams without tools, such as llama-server's "tools param requires --jinja flag", or without
the role `tool`."""
_MAX_OPTIONS = 256
"""Options of clients that are named in the log, once each."""
_MAX_OPTION_NAME = 64
_MAX_REFUSALS = 3
"""Refusals after which no constraint is sent, if none was ever accepted: the upstream does not support them at all.
If one was, their content is at fault, and a single client with odd schemas must not disable constraints for all."""
_MAX_REMEMBERED = 1_000
"""Refused constraints that are remembered (0.1 MB). Beyond that the oldest is forgotten, so it is sent again."""
_NOT_GRAMMARS = frozenset({"", PREFILL})
"""Keys that say nothing about grammars: an upstream may refuse a prefill and accept grammars, or the reverse."""
_LLAMA_SERVER = BACKENDS["llama-server"]
_WITHOUT_IMAGES = frozenset({"images", "media"})
"""Omissions that replace pictures."""
_REFUSAL_STATUSES = frozenset({400, 404, 422, 500, 501, 502})
"""Statuses with which a server may refuse a constraint, or with which fcshim reports that it dropped the connection."""


def _remember(table: dict[str, Value], model: str, value: Value) -> Value:
    """Keep a value for a model, and return it."""
    if len(table) >= _MAX_MODELS and model not in table:
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
        parts = urlsplit(self._upstream.url)
        host = parts.hostname or ""
        is_name = "." in host and host.rpartition(".")[2].isalpha()
        # Public services have tool calling, or refuse tools.
        if parts.scheme == "https" and is_name and not host.endswith((".local", ".internal", ".lan")):
            return ToolsChoice(native=True, reason="its server is a service on the internet")
        return ToolsChoice(native=False, reason="its server does not say that it supports tools")

    def record_refusal(self, model: str, message: str) -> None:
        """Record that the upstream refuses native tools for a model."""
        logger.info("%s: tools are written into the prompt from now on: %s", model, message)
        _remember(self._refusals, self._models.listed_name(model), message)

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
            _remember(self._failures, name, failure)

        return observe

    def record_error(self, model: str, message: str) -> None:
        """Record that a request ended in a server error with native tools, and succeeded without them."""
        logger.info("%s: tools are written into the prompt for an hour: %s", model, message)
        _remember(self._errors, self._models.listed_name(model), (message, self._clock() + _UNSTATED_PERIOD))


class ConstraintRefusals:
    """The constraints that one upstream refuses; each has a key."""

    def __init__(self) -> None:
        self._refused: dict[str, None] = {}
        self._suspected = ""
        self._accepts_grammars = False

    def is_refused(self, key: str) -> bool:
        """Return whether the upstream refuses this constraint; false for the empty key, which means no constraint."""
        refuses_all = not self._accepts_grammars and len(self._refused.keys() - _NOT_GRAMMARS) >= _MAX_REFUSALS
        return key in self._refused or (refuses_all and key not in _NOT_GRAMMARS)

    def record_refusal(self, key: str, *, stated: bool = True) -> None:
        """Record that the request failed with this constraint and succeeded without it.

        `stated`: the upstream answered with an error. Otherwise it dropped the connection, either because of the
        constraint (llama-cpp-python's process dies of a bad grammar) or because somebody stopped it at that moment;
        only the second time in a row counts as a refusal.
        """
        if not stated and self._suspected != key:
            self._suspected = key
            return
        self._refused[key] = None
        if len(self._refused) > _MAX_REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def record_success(self, key: str) -> None:
        """Record that a request succeeded with this constraint (empty for none)."""
        self._accepts_grammars = self._accepts_grammars or key not in _NOT_GRAMMARS
        if self._suspected == key:
            self._suspected = ""


class Capabilities:
    """The detected properties of one upstream.

    `constrain` is `auto`, `off`, or a backend or its name. `clock` counts seconds. Raises `ConfigError` for an unknown
    name.
    """

    def __init__(
        self, upstream: Upstream, constrain: str | Backend = AUTO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.upstream = upstream
        self._clock = clock
        self._backend = _configured_backend(constrain, upstream)
        self._omissions: dict[str, dict[Omission, float]] = {}  # what a model's requests are sent without, until when
        self._accepted_media: dict[str, set[Omission]] = {}  # by model
        self._options_left_out: set[str] = set()  # options that were logged
        self._prompt_counts: dict[str, ModelCounts] = {}
        self._fronts: dict[str, PromptFronts] = {}
        self.translations = Translations(upstream)
        """English words for messages in other languages, by which tools are searched."""
        self._servers: dict[str, Backend] = {}  # of models that have servers of their own
        self.models = ModelResolver(upstream, self._forget_models)
        """What is known of the upstream's models."""
        self.tools = ToolSupport(upstream, self.models, clock)
        """What is known of its native tools."""
        self.constraints = ConstraintRefusals()
        """The constraints that it refuses."""

    def _forget_models(self) -> None:
        """Forget what was found out about models: the upstream lists others now."""
        self.tools.forget()
        self._omissions.clear()
        self._accepted_media.clear()
        self._prompt_counts.clear()
        self._fronts.clear()
        self._servers.clear()

    def omissions(self, model: str) -> tuple[Omission, ...]:
        """Return what the model's requests are sent without, since the upstream refused it."""
        known, now = self._omissions.get(model), self._clock()
        return tuple(each for each, until in known.items() if now < until) if known else ()

    async def image_refusal(self, model: str) -> str:
        """Return why images do not reach a model: the upstream refused them, or its pages say so; empty if neither."""
        if any(omission.name in _WITHOUT_IMAGES for omission in self.omissions(model)):
            return "the endpoint refused pictures for this model, and gets a line of text in their place"
        if not self.upstream.kind.full_openai_api:
            return ""
        modalities = (await self._fetch_props(model)).get("modalities")
        refused = isinstance(modalities, dict) and modalities.get("vision") is False
        return "the server says that this model takes only text" if refused else ""

    def record_omissions(self, model: str, omissions: Iterable[Omission]) -> None:
        """Record that the upstream refused these parts of a request and took it without them."""
        known = self.omissions(model)
        found = {each: self._clock() + _UNSTATED_PERIOD if each.is_medium else math.inf for each in omissions}
        new = {each: until for each, until in found.items() if each not in known}
        for omission in new:
            period = "for an hour" if omission.is_medium else "from now on"
            logger.warning("%s: left out %s: %s", model, period, omission.summary)
        _remember(self._omissions, model, {**self._omissions.get(model, {}), **new})

    def record_media(self, model: str, media: Iterable[Omission]) -> None:
        """Record that the upstream took a request with these media: a later error about one is the client's."""
        if media := set(media):
            _remember(self._accepted_media, model, self._accepted_media.get(model, set()) | media)

    def may_refuse(self, model: str, omission: Omission, error: FcshimError) -> bool:
        """Return whether an error may be a refusal of this part."""
        return omission.is_meant_by(error) and omission not in self._accepted_media.get(model, ())

    def record_left_out(self, names: Iterable[str]) -> None:
        """Log, once for each, that the upstream's API has no field for these options of clients."""
        api = self.upstream.kind.name
        for name in names:
            shown = sanitize_line(name[:_MAX_OPTION_NAME])
            if shown not in self._options_left_out and len(self._options_left_out) < _MAX_OPTIONS:
                self._options_left_out.add(shown)
                logger.warning("%s: left out, since the upstream's API (%s) has no such option", shown, api)

    def find_varying_front(self, prompt: Request) -> VaryingFront | None:
        """Return the line of the system text that differs from the requests before, so that much is read again."""
        fronts = self._fronts.get(prompt.model) or _remember(self._fronts, prompt.model, PromptFronts())
        return fronts.compare(prompt)

    def fit_prompt(self, model: ModelConfig, name: str) -> ModelConfig:
        """Return the settings with a prompt budget that fits into the context, if the upstream has cut a prompt."""
        counts = self._prompt_counts.get(name)
        limit = 0 if counts is None or model.cut_prompt == "off" else counts.budget
        if not limit:
            return model
        return msgspec.structs.replace(model, prompt_budget=min(model.prompt_budget or limit, limit))

    def is_llama_server(self, model: str) -> bool:
        """Return whether it is known that llama-server answers for the model; nothing is asked here."""
        evidence = self.models.known(model)
        server = self._backend or (None if evidence is None else backend_of_owner(evidence.owner))
        return server is _LLAMA_SERVER

    async def find_prompt_loss(self, prompt: Request, sent: SentPrompt, tokens: int) -> PromptLoss | None:
        """Return what the upstream has lost of a prompt, by the tokens that it reports; it may count a doubtful one."""
        counts = self._prompt_counts.get(prompt.model) or _remember(self._prompt_counts, prompt.model, ModelCounts())
        verdict = counts.judge(sent, tokens)
        if verdict.loss is not None or verdict.doubt is None or not self.is_llama_server(prompt.model):
            return verdict.loss
        exact: int | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAGE_TIMEOUT):
                exact = await count_exactly(prompt, self.upstream)
        return None if exact is None else counts.settle(sent, tokens, exact)

    async def backend(self, request: Request, *, for_retry: bool = False) -> Backend:
        """Return the upstream's backend, after detecting it if the request needs a constraint or is a retry.

        `GENERIC`, which sends no constraint, if detection is not needed or the upstream cannot be reached.
        """
        if self._backend is None and (for_retry or _depends_on_backend(request)):
            if self.upstream.kind.full_openai_api:
                with contextlib.suppress(UpstreamError):
                    self._backend = (await detect(self.upstream)).backend
            else:
                self._backend = GENERIC
        backend = self._backend or GENERIC
        return await self._server_of(request.model, backend) if backend.starts_servers else backend

    async def _server_of(self, model: str, starter: Backend) -> Backend:
        """Return the backend of the server that `starter` has started for the model; `starter` if it is unknown."""
        if model not in self._servers:
            try:
                props = await self._fetch_props(model)
            except UpstreamError:
                return starter
            is_llama = any(matches(props, each) for each in _LLAMA_SERVER.fingerprints)
            _remember(self._servers, model, _LLAMA_SERVER if is_llama else starter)
        return self._servers[model]

    async def _fetch_props(self, model: str) -> dict[str, JSON]:
        """Fetch llama-server's properties, empty if they are missing. Raises `UpstreamError`."""
        status, answer = await self.upstream.fetch("GET", props_path(model))
        return read_page(answer) if status == 200 else {}


def may_refuse_constraint(error: FcshimError) -> bool:
    """Return whether an error may be about the constraint: the upstream rejected the request or broke on it."""
    return error.status in _REFUSAL_STATUSES and error.kind != CONTEXT_LENGTH


def _configured_backend(constrain: str | Backend, upstream: Upstream) -> Backend | None:
    """Return the backend that the setting names, or the only one with the upstream's API; None to detect it."""
    if isinstance(constrain, Backend):
        return constrain
    if constrain == AUTO:
        return backend_of_api(upstream.kind.name)
    return OFF if constrain == OFF.name else replace(get_backend(constrain), demanded=True)


def _depends_on_backend(request: Request) -> bool:
    """Return whether a constraint could enforce something: a required call, a strict tool or a document schema.

    A suffix counts too, because the backends differ in how they take it.
    """
    call_required = request.tool_choice.mode == "required" and bool(request.tools)
    return (
        call_required
        or bool(request.suffix)
        or any(tool.strict for tool in request.tools)
        or requested_schema(request) is not None
    )


def refuses_tools(error: FcshimError) -> bool:
    """Return whether an error response says that the upstream does not support tools."""
    if error.status in _UNRELATED_STATUSES or error.kind == CONTEXT_LENGTH:
        return False
    return bool(_MENTIONS_TOOLS.search(error.message))
