"""Decides what the requests for a model get: dialect, profile and other settings, by evidence about the model.

Rule: the operator's setting counts before what was measured for the model, that before what its chat template writes
and the model was seen to write, that before its real name. The upstream is asked once per model and process, and for
its list of models again after `_FRESH` seconds or a lost connection; a request of a known model waits for nothing else.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from fcshim.config import ModelConfig, ModelSettings, model_settings
from fcshim.errors import ConfigError, UpstreamError
from fcshim.model_defaults import defaults_for, has_defaults
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import AUTO, FUNCTION_CALL, get_dialect
from fcshim.parse.recognition import start_marker
from fcshim.sanitize import sanitize_line
from fcshim.upstream.dialect_evidence import dialects_of_template, probe_dialect
from fcshim.upstream.endpoint import Upstream
from fcshim.upstream.measured import MeasuredModel, ProbeResult, load_measured, save_measured
from fcshim.upstream.model_identity import (
    ListedModel,
    ModelIdentity,
    ServedModels,
    identify_listed,
    list_served,
    read_served,
)

logger = logging.getLogger("fcshim.upstream")

_FRESH = 30.0
"""Seconds for which a list of models is used. A server that was started with another model is noticed after them."""
_RECHECK = 5.0
"""Seconds after which an upstream is asked again that did not list its models."""
_MAX_NAMES = 1_000
"""Names of clients for which is remembered what they mean. Clients choose them."""
_MAX_MODELS = 1_024
"""Models whose evidence is remembered; an upstream lists at most some hundred."""
BY_SETTING = "the settings"


class ModelEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one model: its real name, the dialect that follows, the reason, and the measured settings.

    `tried`: false if its template names a dialect that still has to be tried. `refuted`: the start marker of its
    template that it does not write. `native_tools`: what its server claims, None for nothing. `owner`: what the list of
    models says about it.
    """

    name: str
    dialect: str
    reason: str
    settings: dict[str, str | bool | int] = {}
    tried: bool = True
    refuted: str = ""
    native_tools: bool | None = None
    owner: str = ""


class ModelResolver:
    """Finds the evidence about the models of one upstream, and remembers it.

    `on_change` is called when the upstream lists other models than before.
    """

    def __init__(
        self, upstream: Upstream, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._upstream = upstream
        self._on_change = on_change
        self._clock = clock
        self._served = ServedModels(())
        self._fresh_until = float("-inf")
        self._listing = asyncio.Lock()
        self._locks: dict[str, asyncio.Lock] = {}
        self._known: dict[str, ModelEvidence] = {}
        self._named: dict[str, ListedModel | None] = {}  # what is meant by names of clients, in the current list
        self._resolved: dict[str, tuple[ModelConfig, ModelEvidence | None, ModelConfig]] = {}

    async def resolve(self, config: ModelConfig, name: str, *, probe: bool = True) -> ModelConfig:
        """Return the settings for the model that the upstream gets as `name`, with everything automatic decided.

        `probe`: the model may be asked, with one short request per model. Unchanged if nothing is known of the model.
        """
        evidence = await self.evidence(name, probe=probe)
        found = self._resolved.get(name)
        if found is None or found[1] is not evidence or found[0] != config:
            if len(self._resolved) >= _MAX_NAMES:
                self._resolved.clear()
            decided = by_name(config, name) if evidence is None else apply_evidence(config, evidence)
            found = self._resolved[name] = config, evidence, decided
        return found[2]

    async def evidence(self, name: str, *, probe: bool = True) -> ModelEvidence | None:
        """Return what is known of the model that is meant by `name`; None if the upstream does not say which."""
        if self._clock() >= self._fresh_until:
            await self._refresh()
        listed = self._find(name)
        if listed is None:
            return None
        known = self._known.get(listed.name)
        if known is None and self._served.on_demand and not probe:
            return None  # its pages would load it
        if known is None or (probe and not known.tried):
            async with self._locks.setdefault(listed.name, asyncio.Lock()):
                known = self._known.get(listed.name)
                if known is None or (probe and not known.tried):
                    identity = await identify_listed(self._upstream, listed)
                    known = msgspec.structs.replace(
                        await self._gather(listed, identity, probe=probe),
                        native_tools=identity.native_tools,
                        owner=listed.owner,
                    )
                    self._remember(listed, known)
        return known

    def known(self, name: str) -> ModelEvidence | None:
        """Return what is known of a model already, without asking anything."""
        listed = self._find(name)
        return None if listed is None else self._known.get(listed.name)

    def listed_name(self, name: str) -> str:
        """Return the name by which the upstream lists the model that is meant by `name`; `name` if it does not."""
        listed = self._find(name)
        return name if listed is None else listed.name

    def expire(self) -> None:
        """Ask for the list of models before the next request: the connection was lost, so the server may be another."""
        self._fresh_until = float("-inf")

    def _remember(self, listed: ListedModel, evidence: ModelEvidence) -> None:
        if len(self._known) >= _MAX_MODELS:
            self._known.clear()
            self._locks.clear()
        before = self._known.get(listed.name)
        self._known[listed.name] = evidence
        if evidence.tried and (before is None or before.dialect != evidence.dialect or not before.tried):
            logger.info("%s: dialect %s, by %s", sanitize_line(evidence.name), evidence.dialect, evidence.reason)

    def _find(self, name: str) -> ListedModel | None:
        """Return the listed model that is meant by `name`; None, which is logged once, if there is none."""
        if name not in self._named:
            if len(self._named) >= _MAX_NAMES:
                self._named.clear()
            self._named[name] = self._served.find(name)
            if self._named[name] is None and self._served.models:
                logger.info(
                    "%s: the upstream lists %d models, and none of that name: its dialect is %s, by this name alone",
                    sanitize_line(name[:200]),
                    len(self._served.models),
                    defaults_for(name).dialect,
                )
        return self._named[name]

    async def _refresh(self) -> None:
        """Read the list of models, unless another request has read it in the meantime."""
        async with self._listing:
            if self._clock() < self._fresh_until:
                return
            try:
                served = await list_served(self._upstream)
            except UpstreamError:
                self._fresh_until = self._clock() + _RECHECK  # the last list counts
                return
            self._update(served)

    def take_list(self, body: bytes) -> None:
        """Use a list of models that was fetched for another purpose."""
        if not self._upstream.kind.native_tools:
            self._update(read_served(body))

    def _update(self, served: ServedModels) -> None:
        """Keep a new list; forget what is known of a model whose entry has changed."""
        for model in set(self._served.models) - set(served.models):
            self._known.pop(model.name, None)
        if served != self._served:
            self._named.clear()
            if self._served.models:
                self._on_change()
        self._served, self._fresh_until = served, self._clock() + _FRESH

    async def _gather(self, listed: ListedModel, identity: ModelIdentity, *, probe: bool) -> ModelEvidence:
        measured = load_measured(identity.key)
        settings = {} if measured is None else _usable_settings(measured)
        name = real_name(identity)
        if measured is not None and "dialect" in settings:
            reason = f"measurement of {measured.date}: {measured.reason}"
            return ModelEvidence(name=name, dialect=str(settings["dialect"]), reason=reason, settings=settings)
        candidates = await dialects_of_template(self._upstream, identity, listed.name)
        if not candidates:
            return _evidence_of_name(name, settings)
        named = defaults_for(name).dialect
        dialect = next((row for row in candidates if row.name == named), candidates[0])
        result = None if measured is None else measured.probes.get(dialect.name)
        if result is None and probe:
            result = await probe_dialect(self._upstream, listed.name, dialect)
            if result is not None:
                _save_probe(identity, measured, dialect, result)
        return _evidence_of_probe(name, dialect, result, settings, tried=probe or result is not None)


def real_name(identity: ModelIdentity) -> str:
    """Return the first of a model's names that the table of defaults knows, else the first."""
    return next((name for name in identity.names if has_defaults(name)), identity.name)


_DEFAULTS = ModelSettings()


def by_name(config: ModelConfig, name: str) -> ModelConfig:
    """Return the settings with the dialect that follows from a client's name."""
    if config.dialect != AUTO:
        return msgspec.structs.replace(config, dialect_reason=BY_SETTING)
    return msgspec.structs.replace(config, dialect_reason=_reason_of_name(name))


def apply_evidence(config: ModelConfig, evidence: ModelEvidence) -> ModelConfig:
    """Return the settings with those that were measured, and the dialect; the operator's own settings stay.

    `tools` stays `auto`: what was measured is one of several kinds of evidence for it (`capabilities`).
    """
    measured = {
        field: value
        for field, value in evidence.settings.items()
        if field != "tools" and getattr(config, field) == getattr(_DEFAULTS, field)
    }
    decided = {"dialect": evidence.dialect, "dialect_reason": evidence.reason}
    if config.dialect != AUTO:
        decided = {"dialect_reason": BY_SETTING}
    return msgspec.structs.replace(config, real_name=evidence.name, **{**measured, **decided})


def _evidence_of_name(name: str, settings: dict[str, str | bool | int]) -> ModelEvidence:
    dialect, reason = defaults_for(name).dialect, _reason_of_name(name)
    return ModelEvidence(name=name, dialect=dialect, reason=reason, settings=settings)


def _reason_of_name(name: str) -> str:
    return f"its name, {sanitize_line(name[:80])}" if has_defaults(name) else "default: nothing else is known of it"


def _evidence_of_probe(
    name: str,
    dialect: Dialect,
    result: ProbeResult | None,
    settings: dict[str, str | bool | int],
    *,
    tried: bool,
) -> ModelEvidence:
    marker = start_marker(dialect)
    if result == "written":
        reason = f"its chat template and a trial: it writes {marker}"
        return ModelEvidence(name=name, dialect=dialect.name, reason=reason, settings=settings)
    named = _evidence_of_name(name, settings)
    if result == "other":
        refuted = start_marker(get_dialect(named.dialect)) == marker
        chosen = FUNCTION_CALL.name if refuted else named.dialect
        reason = "default" if refuted else named.reason
        reason = f"{reason}; a trial: it does not write its template's {marker}"
        return ModelEvidence(name=name, dialect=chosen, reason=reason, settings=settings, refuted=marker)
    note = f"; its template's {marker} was not tried yet" if result is None else ""
    return msgspec.structs.replace(named, reason=named.reason + note, tried=tried)


def _usable_settings(measured: MeasuredModel) -> dict[str, str | bool | int]:
    """Return the measured settings that this version has, if their values are valid."""
    types = {setting.name: setting.type for setting in model_settings()}
    usable = {name: value for name, value in measured.settings.items() if name in types}
    try:
        for name, value in usable.items():
            msgspec.convert(value, types[name])
        get_dialect(str(usable.get("dialect", FUNCTION_CALL.name)))
    except (msgspec.ValidationError, ConfigError) as error:
        logger.warning("%s: its measured settings are ignored: %s", sanitize_line(measured.model), error)
        return {}
    return usable


def _save_probe(identity: ModelIdentity, measured: MeasuredModel | None, dialect: Dialect, result: ProbeResult) -> None:
    if measured is None:
        today = datetime.now(UTC).date().isoformat()
        measured = MeasuredModel(model=identity.name, settings={}, reason="", date=today, complete=False)
    probes = {**measured.probes, dialect.name: result}
    measured = msgspec.structs.replace(
        measured, probes=probes, reason=measured.reason or f"a trial of the dialect {dialect.name}"
    )
    save_measured(identity.key, measured)
