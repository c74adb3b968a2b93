"""Detects and remembers what one upstream supports: models, native tools, backend and constraints.

Rule: the upstream is asked once per question, and only when a request needs the answer; what it then does overrides its
claim. A refused constraint is not sent again; after three refusals and no success, no constraint is sent at all.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.config import Config, ModelConfig, ToolsPolicy
from fcshim.constrain.constraint import dialect_note
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request, requested_schema, uses_tools
from fcshim.pipeline.backends import BACKENDS, GENERIC, OFF, Backend, backend_of_api, get_backend
from fcshim.pipeline.omissions import Omission
from fcshim.pipeline.retry.resumption import PREFILL
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import chosen_profile
from fcshim.sanitize import sanitize_line
from fcshim.upstream import Upstream
from fcshim.upstream.detection import detect, loads_on_demand, matches
from fcshim.upstream.model_resolution import BY_SETTING, ModelResolver
from fcshim.upstream.pages import props_path

logger = logging.getLogger("fcshim.upstream")

AUTO = "auto"
_MAX_MODELS = 1024
"""Models that are remembered. Clients choose the names, so the table must not grow without bound."""
_MAX_TRIAL = 8.0
"""Seconds for which a report waits for the trial of a dialect; the banner waits for 10 in all."""
_MAX_REFUSALS = 3
"""Refusals after which no constraint is sent, if none was ever accepted: the upstream does not support them at all.
If one was, their content is at fault, and a single client with odd schemas must not disable constraints for all."""
_MAX_REMEMBERED = 1_000
"""Refused constraints that are remembered (0.1 MB). Beyond that the oldest is forgotten, so it is sent again."""
_LLAMA_SERVER = BACKENDS["llama-server"]
_WITHOUT_IMAGES = frozenset({"images", "media"})
"""Omissions that replace pictures."""
_NOT_GRAMMARS = frozenset({"", PREFILL})
"""Keys that say nothing about grammars: an upstream may refuse a prefill and accept grammars, or the reverse."""
_REFUSAL_STATUSES = frozenset({400, 404, 422, 500, 501, 502})
"""Statuses with which a server may refuse a constraint, or with which fcshim reports that it dropped the connection."""
_UNRELATED_STATUSES = frozenset({401, 403, 413, 429, 503, 504})
"""Errors of authentication, size, rate or load; they do not mean that tools are unsupported, whatever the text says."""
_MENTIONS_TOOLS = re.compile(r"\btools?\b|\btool_|function.?call|jinja|\broles?\b", re.IGNORECASE)
"""Words in errors of upstreams without tools, such as llama-server's "tools param requires --jinja flag", or without
the role `tool`."""


class Capabilities:
    """The detected properties of one upstream.

    `constrain` is `auto`, `off`, or the name of a backend. Raises `ConfigError` for an unknown name.
    """

    def __init__(self, upstream: Upstream, constrain: str = AUTO) -> None:
        self.upstream = upstream
        self._backend = _configured_backend(constrain, upstream)
        self._native: dict[str, bool] = {}  # whether a model has native tools
        self._native_suspects: set[str] = set()  # models whose native tools failed without a reason
        self._omissions: dict[str, tuple[Omission, ...]] = {}  # what a model's requests are sent without
        self._servers: dict[str, Backend] = {}  # of models that have servers of their own
        self._refused: dict[str, None] = {}
        self._suspected = ""
        self._accepts_grammars = False
        self.models = ModelResolver(upstream, self._forget_models)
        """What is known of the upstream's models."""

    def _forget_models(self) -> None:
        """Forget what was found out about models: the upstream lists others now."""
        self._native.clear()
        self._native_suspects.clear()
        self._omissions.clear()
        self._servers.clear()

    async def uses_native_tools(self, request: Request, tools: ToolsPolicy) -> bool:
        """Return whether the request uses the upstream's native tools."""
        if tools == "auto" and uses_tools(request):
            return await self.has_native_tools(request.model)
        return tools == "native"

    async def has_native_tools(self, model: str) -> bool:
        """Return whether `model` has native tools, as its upstream claims.

        False while the upstream cannot be reached; it is asked again next time.
        """
        if model not in self._native:
            try:
                claimed = await self._query(model)
            except UpstreamError:
                return False
            self.record_native_tools(model, works=claimed)
        return self._native[model]

    def knows_native_tools(self, model: str) -> bool:
        """Return whether `has_native_tools` answers without a request to the upstream."""
        return model in self._native

    def record_native_tools(self, model: str, *, works: bool) -> None:
        """Record whether a model has native tools that work."""
        if len(self._native) >= _MAX_MODELS:
            self._native.clear()
        self._native[model] = works
        self._native_suspects.discard(model)

    def native_failure_handler(self, model: str) -> Callable[[str], None]:
        """Return a function that records that the model's native tools do not work; its argument is the reason."""

        def handle(reason: str) -> None:
            logger.info("%s: tools are written into the prompt from now on: %s", model, reason)
            self.record_native_tools(model, works=False)

        return handle

    def suspect_native_tools(self, model: str, reason: str) -> None:
        """Record that a request failed with native tools and succeeded without them, without a stated reason.

        The cause may have been temporary, so only the second time in a row counts as a failure.
        """
        if model in self._native_suspects:
            self.native_failure_handler(model)(reason)
            return
        if len(self._native_suspects) >= _MAX_MODELS:
            self._native_suspects.clear()
        self._native_suspects.add(model)

    def record_native_success(self, model: str) -> None:
        """Record that the upstream answered a request with native tools."""
        self._native_suspects.discard(model)

    def omissions(self, model: str) -> tuple[Omission, ...]:
        """Return what the model's requests are sent without, since the upstream refused it."""
        return self._omissions.get(model, ())

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
        found = [omission for omission in omissions if omission not in known]
        for omission in found:
            logger.warning("%s: left out from now on: %s", model, omission.summary)
        if len(self._omissions) >= _MAX_MODELS:
            self._omissions.clear()
        self._omissions[model] = (*known, *found)

    async def backend(self, request: Request, *, for_retry: bool = False) -> Backend:
        """Return the upstream's backend, after detecting it if the request needs a constraint or is a retry.

        `GENERIC`, which sends no constraint, if detection is not needed or the upstream cannot be reached.
        """
        if self._backend is None and (for_retry or _depends_on_backend(request)):
            self._backend = await self._detect() if self.upstream.kind.full_openai_api else GENERIC
        backend = self._backend or GENERIC
        return await self._server_of(request.model, backend) if backend.starts_servers else backend

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
            if len(self._servers) >= _MAX_MODELS:
                self._servers.clear()
            is_llama = any(matches(props, each) for each in _LLAMA_SERVER.fingerprints)
            self._servers[model] = _LLAMA_SERVER if is_llama else starter
        return self._servers[model]

    async def _query(self, model: str) -> bool:
        match self.upstream.kind.tool_support_source:
            case "always":
                return True
            case "props":
                return _template_has_tools(await self._fetch_json("GET", props_path(model)))
            case "show":
                body = msgspec.json.encode({"model": model})
                capabilities = (await self._fetch_json("POST", "//api/show", body)).get("capabilities")
                return isinstance(capabilities, list) and "tools" in capabilities

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

    `tools`: `native` or `prompt`; `auto` if the server would have to load the model to answer. `note`: why its calls
    cannot be constrained, if they cannot. `left_out`: what the upstream refused so far.
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
    if tools == "auto" and (asks or capabilities.knows_native_tools(upstream_name)):
        tools = "native" if await capabilities.has_native_tools(upstream_name) else "prompt"
    real_name = model.real_name or upstream_name
    profile, dialect = chosen_profile(model.profile, real_name), chosen_dialect(model.dialect, real_name)
    note = dialect_note(dialect) if constrains and tools != "native" else ""
    left_out = tuple(omission.name for omission in capabilities.omissions(upstream_name))
    return ModelReport(
        name, tools, dialect.name, profile.name, note, left_out, reason=model.dialect_reason or BY_SETTING
    )


async def _resolve_in_time(model: ModelConfig, name: str, capabilities: Capabilities, *, probe: bool) -> ModelConfig:
    """Return the model's settings; a trial of its dialect that takes long is left to the first request."""
    if probe:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_TRIAL):
                return await capabilities.models.resolve(model, name)
    return await capabilities.models.resolve(model, name, probe=False)


def report_table(reports: Sequence[ModelReport]) -> list[str]:
    """Return the reports as lines of a table with a head, safe to show; with the upstreams, where there are several."""
    upstream = ["upstream"] if any(row.upstream for row in reports) else []
    columns = ["model", "tools", "dialect", "profile", *upstream, "reason"]
    table = [columns, *([sanitize_line(getattr(row, column)) for column in columns] for row in reports)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in table]


def refuses_tools(error: FcshimError) -> bool:
    """Return whether an error response says that the upstream does not support tools."""
    if error.status in _UNRELATED_STATUSES or error.kind == CONTEXT_LENGTH:
        return False
    return bool(_MENTIONS_TOOLS.search(error.message))


def may_refuse_constraint(error: FcshimError) -> bool:
    """Return whether an error may be about the constraint: the upstream rejected the request or broke on it."""
    return error.status in _REFUSAL_STATUSES and error.kind != CONTEXT_LENGTH


def _configured_backend(constrain: str, upstream: Upstream) -> Backend | None:
    """Return the backend that the setting names, or the only one with the upstream's API; None to detect it."""
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


def _template_has_tools(props: dict[str, JSON]) -> bool:
    """Read llama-server's /props.

    Without a template in it the answer is true: an upstream without tools refuses them with an error, and that is
    handled (`refuses_tools`).
    """
    caps = props.get("chat_template_caps")
    if isinstance(caps, dict) and isinstance(caps.get("supports_tools"), bool):
        return bool(caps["supports_tools"])
    template = props.get("chat_template")
    return "tools" in template if isinstance(template, str) else True
