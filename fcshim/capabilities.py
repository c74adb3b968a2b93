"""What one asks an upstream besides replies: which models it has, and which of them call tools by themselves.

Rule: what an upstream claims is asked once per model; what then happens corrects it.
Neighbours: `client` and `server` ask; `codecs.upstreams` says how each kind answers.
"""

import logging
import re
from collections.abc import Callable

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.config import Config, ModelConfig
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.profiles import chosen_profile
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.upstream import Upstream

logger = logging.getLogger("fcshim.capabilities")

_MAX_MODELS = 1024
"""Models whose aptitude is remembered: clients may name models as they like."""
_UNRELATED_STATUSES = frozenset({401, 403, 413, 429, 503, 504})
_MENTIONS_TOOLS = re.compile(r"\btools?\b|\btool_|function.?call|jinja", re.IGNORECASE)


async def list_models(upstream: Upstream) -> tuple[list[str], bytes]:
    """Give the names of an upstream's models, and its list as it came. Raises `UpstreamError`."""
    codec = upstream.kind.codec
    status, listed = await upstream.fetch("GET", codec.models_path)
    if status != 200:
        raise codec.decode_error(status, {}, listed)
    return codec.decode_models(listed), listed


class ToolSupport:
    """Which models of one upstream call tools by themselves."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self._known: dict[str, bool] = {}

    async def is_native(self, model: str) -> bool:
        """Tell whether `model` calls tools, as far as its upstream says; an upstream that is away says nothing."""
        if model not in self._known:
            try:
                claimed = await self._query(model)
            except UpstreamError:
                return False
            self.record(model, native=claimed)
        return self._known[model]

    def native_failure_handler(self, model: str) -> Callable[[str], None]:
        """Give what takes note that a model's own tools are not to be trusted, told why."""

        def noticed(reason: str) -> None:
            logger.info("%s: tools go by the prompt from now on: %s", model, reason)
            self.record(model, native=False)

        return noticed

    def record(self, model: str, *, native: bool) -> None:
        """Take note of what a model turned out to do."""
        if len(self._known) >= _MAX_MODELS:
            self._known.clear()
        self._known[model] = native

    async def _query(self, model: str) -> bool:
        match self.upstream.kind.tool_support_source:
            case "always":
                return True
            case "props":
                return _template_has_tools(await self._fetch_json("GET", "//props"))
            case "show":
                body = msgspec.json.encode({"model": model})
                capabilities = (await self._fetch_json("POST", "//api/show", body)).get("capabilities")
                return isinstance(capabilities, list) and "tools" in capabilities

    async def _fetch_json(self, method: str, path: str, body: bytes = b"") -> dict[str, JSON]:
        """Ask for a JSON object; an empty one where there is none."""
        status, answer = await self.upstream.fetch(method, path, body)
        try:
            value = msgspec.json.decode(answer) if status == 200 else None
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


class ModelReport(msgspec.Struct, frozen=True):
    """How one model is asked: whose tool calling it gets, in which dialect it would write, what its template takes."""

    model: str
    tools: str
    dialect: str
    profile: str


async def model_reports(config: Config, tool_support: ToolSupport) -> list[ModelReport]:
    """Tell of every model that the upstream lists or the settings name. Raises `UpstreamError`."""
    names, _ = await list_models(tool_support.upstream)
    named = [name for name, row in config.models.items() if row.upstream_model]
    return [await _model_report(name, config.for_model(name), tool_support) for name in dict.fromkeys([*names, *named])]


async def _model_report(name: str, model: ModelConfig, tool_support: ToolSupport) -> ModelReport:
    there = model.upstream_model or name
    native = model.tools == "native" or (model.tools == "auto" and await tool_support.is_native(there))
    profile, dialect = chosen_profile(model.profile, there), chosen_dialect(model.dialect, there)
    return ModelReport(name, "native" if native else "prompt", dialect.name, profile.name)


def _template_has_tools(props: dict[str, JSON]) -> bool:
    """Read llama-server's page; an upstream without one may have tools, and will say so where it has not."""
    caps = props.get("chat_template_caps")
    if isinstance(caps, dict) and isinstance(caps.get("supports_tools"), bool):
        return bool(caps["supports_tools"])
    template = props.get("chat_template")
    return "tools" in template if isinstance(template, str) else True


def refuses_tools(error: FcshimError) -> bool:
    """Tell whether an upstream's answer says that it cannot do what tools need."""
    if error.status in _UNRELATED_STATUSES or error.kind == CONTEXT_LENGTH:
        return False
    return bool(_MENTIONS_TOOLS.search(error.message))
