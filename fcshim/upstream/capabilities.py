"""An upstream's capabilities: which models it lists, and which of them have native tool calling.

Rule: the upstream is asked once per model whether it has native tools; what it then does with them overrides its claim.
"""

import logging
import re
from collections.abc import Callable

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.config import Config, ModelConfig
from fcshim.constrain.constraint import dialect_note
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.profiles import chosen_profile
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.upstream import Upstream

logger = logging.getLogger("fcshim.upstream")

_MAX_MODELS = 1024
"""Models that are remembered. Clients choose the names, so the table must not grow without bound."""
_UNRELATED_STATUSES = frozenset({401, 403, 413, 429, 503, 504})
"""Errors of authentication, size, rate or load; they do not mean that tools are unsupported, whatever the text says."""
_MENTIONS_TOOLS = re.compile(r"\btools?\b|\btool_|function.?call|jinja", re.IGNORECASE)
"""Words in errors of upstreams without tools, such as llama-server's "tools param requires --jinja flag"."""


async def list_models(upstream: Upstream) -> tuple[list[str], bytes]:
    """Return the names of an upstream's models, and the body of its list. Raises `UpstreamError`."""
    codec = upstream.kind.codec
    status, listed = await upstream.fetch("GET", codec.models_path)
    if status != 200:
        raise codec.decode_error(status, {}, listed)
    return codec.decode_models(listed), listed


class ToolSupport:
    """Which models of one upstream have native tool calling."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self._known: dict[str, bool] = {}

    async def is_native(self, model: str) -> bool:
        """Return whether `model` has native tools, as its upstream claims.

        False while the upstream cannot be reached; it is asked again next time.
        """
        if model not in self._known:
            try:
                claimed = await self._query(model)
            except UpstreamError:
                return False
            self.record(model, native=claimed)
        return self._known[model]

    def native_failure_handler(self, model: str) -> Callable[[str], None]:
        """Return a function that records that the model's native tools do not work; its argument is the reason."""

        def handle(reason: str) -> None:
            logger.info("%s: tools are written into the prompt from now on: %s", model, reason)
            self.record(model, native=False)

        return handle

    def record(self, model: str, *, native: bool) -> None:
        """Record whether a model has native tools."""
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
        """Fetch a JSON object; an empty one if the page is missing or is not a JSON object."""
        status, answer = await self.upstream.fetch(method, path, body)
        try:
            value = msgspec.json.decode(answer) if status == 200 else None
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


class ModelReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tool calling (`native` or `prompt`), dialect and profile that requests for one model get.

    `note`: why its calls cannot be constrained, if they cannot.
    """

    model: str
    tools: str
    dialect: str
    profile: str
    note: str = ""


async def model_reports(config: Config, tool_support: ToolSupport) -> list[ModelReport]:
    """Return a report for every model that the upstream lists or the settings name. Raises `UpstreamError`."""
    names, _ = await list_models(tool_support.upstream)
    named = [name for name, row in config.models.items() if row.upstream_model]
    constrains = config.constrain != "off"
    return [
        await _model_report(name, config.for_model(name), tool_support, constrains=constrains)
        for name in dict.fromkeys([*names, *named])
    ]


async def _model_report(name: str, model: ModelConfig, tool_support: ToolSupport, *, constrains: bool) -> ModelReport:
    upstream_name = model.upstream_model or name
    native = model.tools == "native" or (model.tools == "auto" and await tool_support.is_native(upstream_name))
    profile, dialect = chosen_profile(model.profile, upstream_name), chosen_dialect(model.dialect, upstream_name)
    note = dialect_note(dialect) if constrains and not native else ""
    return ModelReport(name, "native" if native else "prompt", dialect.name, profile.name, note)


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


def refuses_tools(error: FcshimError) -> bool:
    """Return whether an error response says that the upstream does not support tools."""
    if error.status in _UNRELATED_STATUSES or error.kind == CONTEXT_LENGTH:
        return False
    return bool(_MENTIONS_TOOLS.search(error.message))
