"""Detects and remembers what one upstream supports: models, native tools, backend and constraints.

Rule: the upstream is asked once per question, and only when a request needs the answer; what it then does overrides its
claim. What only follows from the success of a request without images holds for an hour, since the reason may have been
another one. A refused constraint is not sent again; after three refusals and no success, no constraint is sent at all.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.config import Config, ModelConfig
from fcshim.constrain.constraint import dialect_note
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request, requested_schema
from fcshim.pipeline.backends import BACKENDS, GENERIC, OFF, Backend, backend_of_api, backend_of_owner, get_backend
from fcshim.pipeline.omissions import Omission
from fcshim.pipeline.resumption import PREFILL
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import chosen_profile
from fcshim.sanitize import sanitize_line
from fcshim.upstream import Upstream
from fcshim.upstream.detection import PAGE_TIMEOUT, detect, loads_on_demand, matches
from fcshim.upstream.model_resolution import BY_SETTING, ModelResolver
from fcshim.upstream.pages import props_path
from fcshim.upstream.prompt_front import PromptFronts, VaryingFront
from fcshim.upstream.prompt_loss import ModelCounts, PromptLoss, SentPrompt
from fcshim.upstream.token_count import count_exactly
from fcshim.upstream.tool_support import MAX_MODELS, UNSTATED_PERIOD, ToolSupport, remember
from fcshim.upstream.translation import Translations

logger = logging.getLogger("fcshim.upstream")

AUTO = "auto"
_MAX_OPTIONS = 256
"""Options of clients that are named in the log, once each."""
_MAX_OPTION_NAME = 64
_MAX_TRIAL = 8.0
"""Seconds for which a report waits for the trial of a dialect; the banner waits for 10 in all."""
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


class ConstraintRefusals:
    """The constraints that one upstream refuses; each has a key."""

    def __init__(self) -> None:
        self._refused: dict[str, None] = {}
        self._suspected = ""
        self._accepts_grammars = False

    def is_refused(self, key: str) -> bool:
        """Return whether the upstream refuses this constraint; false for the empty key, which means no constraint."""
        return key in self._refused or (self._refuses_all and key not in _NOT_GRAMMARS)

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

    @property
    def _refuses_all(self) -> bool:
        return not self._accepts_grammars and len(self._refused.keys() - _NOT_GRAMMARS) >= _MAX_REFUSALS


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
        now = self._clock()
        return tuple(each for each, until in self._omissions.get(model, {}).items() if now < until)

    async def image_refusal(self, model: str) -> str:
        """Return why images do not reach a model: the upstream refused them, or its pages say so; empty if neither."""
        if any(omission.name in _WITHOUT_IMAGES for omission in self.omissions(model)):
            return "the endpoint refused pictures for this model, and gets a line of text in their place"
        if not self.upstream.kind.full_openai_api:
            return ""
        modalities = (await self._fetch_json("GET", props_path(model))).get("modalities")
        refused = isinstance(modalities, dict) and modalities.get("vision") is False
        return "the server says that this model takes only text" if refused else ""

    def record_omissions(self, model: str, omissions: Iterable[Omission]) -> None:
        """Record that the upstream refused these parts of a request and took it without them."""
        known = self.omissions(model)
        found = {each: self._clock() + UNSTATED_PERIOD if each.is_medium else math.inf for each in omissions}
        new = {each: until for each, until in found.items() if each not in known}
        for omission in new:
            period = "for an hour" if omission.is_medium else "from now on"
            logger.warning("%s: left out %s: %s", model, period, omission.summary)
        remember(self._omissions, model, {**self._omissions.get(model, {}), **new})

    def record_media(self, model: str, media: Iterable[Omission]) -> None:
        """Record that the upstream took a request with these media: a later error about one is the client's."""
        if media := set(media):
            remember(self._accepted_media, model, self._accepted_media.get(model, set()) | media)

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
        fronts = self._fronts.get(prompt.model)
        if fronts is None:
            fronts = remember(self._fronts, prompt.model, PromptFronts())
        return fronts.compare(prompt)

    def fit_prompt(self, model: ModelConfig, name: str) -> ModelConfig:
        """Return the settings with a prompt budget that fits into the context, if the upstream has cut a prompt."""
        counts = self._prompt_counts.get(name)
        limits = [model.prompt_budget, 0 if counts is None or model.cut_prompt == "off" else counts.budget]
        return msgspec.structs.replace(model, prompt_budget=min(filter(None, limits), default=0))

    def is_llama_server(self, model: str) -> bool:
        """Return whether it is known that llama-server answers for the model; nothing is asked here."""
        evidence = self.models.known(model)
        server = self._backend or (None if evidence is None else backend_of_owner(evidence.owner))
        return server is _LLAMA_SERVER

    async def find_prompt_loss(self, prompt: Request, sent: SentPrompt, tokens: int) -> PromptLoss | None:
        """Return what the upstream has lost of a prompt, by the tokens that it reports; it may count a doubtful one."""
        counts = self._prompt_counts.get(prompt.model)
        if counts is None:
            counts = remember(self._prompt_counts, prompt.model, ModelCounts())
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
            self._backend = await self._detect() if self.upstream.kind.full_openai_api else GENERIC
        backend = self._backend or GENERIC
        return await self._server_of(request.model, backend) if backend.starts_servers else backend

    async def _detect(self) -> Backend | None:
        try:
            return (await detect(self.upstream)).backend
        except UpstreamError:
            return None

    async def _server_of(self, model: str, starter: Backend) -> Backend:
        """Return the backend of the server that `starter` has started for the model; `starter` if it is unknown."""
        if model not in self._servers:
            try:
                props = await self._fetch_json("GET", props_path(model))
            except UpstreamError:
                return starter
            if len(self._servers) >= MAX_MODELS:
                self._servers.clear()
            is_llama = any(matches(props, each) for each in _LLAMA_SERVER.fingerprints)
            self._servers[model] = _LLAMA_SERVER if is_llama else starter
        return self._servers[model]

    async def _fetch_json(self, method: str, path: str, body: bytes = b"") -> dict[str, JSON]:
        """Fetch a JSON object; an empty one if the page is missing or is not a JSON object."""
        status, answer = await self.upstream.fetch(method, path, body)
        try:
            value = msgspec.json.decode(answer) if status == 200 else None
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


class ModelReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tool calling, dialect and profile that requests for one model get.

    `tools`: `native` or `prompt`, and `tools_reason` says why; `auto` if the server would have to load the model to
    answer. `note`: why its calls cannot be constrained, if they cannot. `left_out`: what the upstream refused so far.
    """

    model: str
    tools: str
    dialect: str
    profile: str
    note: str = ""
    left_out: tuple[str, ...] = ()
    upstream: str = ""
    """The name of the upstream, where there are several, and `health`, where it is not good."""
    health: str = ""
    reason: str = ""
    """Why the model has its dialect."""
    tools_reason: str = ""


async def model_reports(config: Config, capabilities: Capabilities) -> list[ModelReport]:
    """Return a report for every model that the upstream lists or the settings name. Raises `UpstreamError`."""
    names, listed = await capabilities.upstream.list_models()
    capabilities.models.take_list(listed)
    asks = not loads_on_demand(listed)
    # A trial, or any page about a model, would make some servers load it.
    probe = asks and len(names) == 1
    constrains = config.constrain != "off"
    return [
        await _model_report(name, config.for_model(name), capabilities, constrains=constrains, asks=asks, probe=probe)
        for name in dict.fromkeys([*names, *config.aliases])
    ]


async def _model_report(
    name: str, model: ModelConfig, capabilities: Capabilities, *, constrains: bool, asks: bool, probe: bool
) -> ModelReport:
    upstream_name = model.upstream_model or name
    model = await _resolve_in_time(model, upstream_name, capabilities, probe=probe)
    tools: str = model.tools
    tools_reason = ""
    if asks or tools != "auto" or capabilities.models.known(upstream_name) is not None:
        choice = capabilities.tools.choose(upstream_name, model)
        tools, tools_reason = choice.name, choice.reason
    real_name = model.real_name or upstream_name
    profile, dialect = chosen_profile(model.profile, real_name), chosen_dialect(model.dialect, real_name)
    note = dialect_note(dialect) if constrains and tools != "native" else ""
    left_out = tuple(omission.name for omission in capabilities.omissions(upstream_name))
    return ModelReport(
        name,
        tools,
        dialect.name,
        profile.name,
        note,
        left_out,
        reason=model.dialect_reason or BY_SETTING,
        tools_reason=tools_reason,
    )


async def _resolve_in_time(model: ModelConfig, name: str, capabilities: Capabilities, *, probe: bool) -> ModelConfig:
    """Return the model's settings; a trial of its dialect that takes long is left to the first request."""
    if probe:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_TRIAL):
                return await capabilities.models.resolve(model, name)
    return await capabilities.models.resolve(model, name, probe=False)


def report_table(reports: Sequence[ModelReport]) -> list[str]:
    """Return the reports as lines of a table with a head, safe to show; with the upstreams, where there are several.

    The reason is that for the dialect, or for native tools.
    """
    reports = [msgspec.structs.replace(row, reason=_reason(row)) for row in reports]
    upstream = ["upstream"] if any(row.upstream for row in reports) else []
    columns = ["model", "tools", "dialect", "profile", *upstream, "reason"]
    table = [columns, *([sanitize_line(getattr(row, column)) for column in columns] for row in reports)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _reason(report: ModelReport) -> str:
    return report.tools_reason if report.tools == "native" else report.reason


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
