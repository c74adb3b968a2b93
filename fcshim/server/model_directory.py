"""Finds the upstream that has a model, and makes one list of the models of all upstreams.

Rule: an upstream is asked for its list at most every few seconds, and its last list counts while it is unavailable. A
name that two upstreams have, or that begins like the name of an upstream, is listed as `upstream/name`. The models of
an upstream that was never reached are unknown, so a name that no other upstream has may be its own.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from fcshim.config import Config
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.upstream import Upstream
from fcshim.upstream.health import FAILURE_STATUSES, MeasuredUpstream

_FRESH = 30.0
"""Seconds for which a list is used without asking again."""
_RECHECK = 2.0
"""Seconds after which a name that no list has makes the proxy ask again: the model may be new."""
_LIST_TIMEOUT = 5.0
"""Seconds for one list. One upstream that hangs must not hold up the models of the others."""
_LATEST = ":latest"


@dataclass
class ModelList:
    """The last list of one upstream. `error`: why it could not be asked. `known`: whether it ever answered."""

    names: list[str]
    body: bytes = b""
    asked_at: float = float("-inf")
    error: str = ""
    known: bool = False


class ModelDirectory:
    """The lists of all `upstreams`, by name, in the order of the settings."""

    def __init__(
        self, config: Config, upstreams: Mapping[str, MeasuredUpstream], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._upstreams = upstreams
        self._lists = {name: ModelList([]) for name in upstreams}
        self._clock = clock
        self._asking: asyncio.Task[None] | None = None

    async def find(self, model: str) -> str:
        """Return the name of the first upstream that has `model`, or of the first of all if none has it.

        Raises `UpstreamError` if one that was never reached may have it.
        """
        wanted = self._config.for_model(model).upstream_model or model
        found = self._owner(wanted)
        if found is not None:
            self._start_asking(_FRESH)  # a known model does not need the lists
            return found
        await self._refresh(_RECHECK)
        found = self._owner(wanted)
        unreached = [f"{name} ({known.error})" for name, known in self._lists.items() if not known.known]
        if found is None and unreached:
            raise UpstreamError(
                f"no upstream lists the model {model!r:.200}, and these could not be asked: {', '.join(unreached)}; "
                f'a row [models."NAME"] with upstream = "..." says whose it is',
                status=503,
                kind="unavailable",
            )
        return found or next(iter(self._upstreams))

    async def list_models(self) -> tuple[list[str], bytes]:
        """Return the public names of all models, and one list in OpenAI's form. Raises `UpstreamError`."""
        await self._refresh(_FRESH)
        errors = [f"{name}: {known.error}" for name, known in self._lists.items() if known.error]
        if len(errors) == len(self._lists):
            raise UpstreamError(f"no upstream lists its models: {'; '.join(errors)}", status=503, kind="unavailable")
        pinned = [name for name, row in self._config.models.items() if row.upstream and not set("*?[") & set(name)]
        entries: list[JSON] = [{"id": name, "object": "model"} for name in pinned]
        names = list(pinned)
        for upstream, known in self._lists.items():
            public = self.public_names(upstream)
            names += public.values()
            entries += _renamed_entries(known.body, {own: name for own, name in public.items() if name not in pinned})
        return list(dict.fromkeys(names)), msgspec.json.encode({"object": "list", "data": entries})

    async def locate(self, model: str) -> tuple[Upstream, str]:
        """Return the upstream that has a model, and its own name for it. Raises `UpstreamError`."""
        own_name = self._config.for_model(model).upstream_model or model
        chosen = self._config.upstreams_of(model) or self.prefixed(model) or (await self.find(model),)
        return self._upstreams[chosen[0]], own_name.removeprefix(f"{chosen[0]}/")

    def prefixed(self, model: str) -> tuple[str, ...]:
        """Return the upstream that a name `upstream/model` starts with; empty if there is none."""
        prefix, slash, _ = model.partition("/")
        return (prefix,) if slash and prefix in self._upstreams else ()

    def public_names(self, upstream: str) -> dict[str, str]:
        """Return what clients call each model of an upstream, by its own name."""
        count = Counter(name for known in self._lists.values() for name in set(known.names))
        return {
            name: f"{upstream}/{name}" if count[name] > 1 or name.partition("/")[0] in self._upstreams else name
            for name in self._lists[upstream].names
        }

    def _owner(self, model: str) -> str | None:
        for name, known in self._lists.items():
            if model in known.names or model + _LATEST in known.names:
                return name
        return None

    async def _refresh(self, max_age: float) -> None:
        """Ask for every list that is older, and wait for it."""
        asking = self._start_asking(max_age)
        if asking is not None:
            await asyncio.shield(asking)

    def _start_asking(self, max_age: float) -> "asyncio.Task[None] | None":
        """Begin to ask for every list that is older; requests that need it at the same time share the answer."""
        if self._asking is None or self._asking.done():
            due = [name for name, known in self._lists.items() if self._clock() - known.asked_at >= max_age]
            self._asking = asyncio.create_task(self._ask(due), name="lists of models") if due else None
        return self._asking

    async def _ask(self, names: list[str]) -> None:
        await asyncio.gather(*map(self._ask_one, names))

    async def _ask_one(self, name: str) -> None:
        known, health = self._lists[name], self._upstreams[name].health
        if health.retry_in:
            known.error = health.report().reason
            return
        try:
            async with asyncio.timeout(_LIST_TIMEOUT):
                known.names, known.body = await self._upstreams[name].list_models()
            known.error, known.known = "", True
        except TimeoutError:
            known.error = f"no list of models within {_LIST_TIMEOUT:g} s"
        except FcshimError as error:
            known.error = error.message
            # An upstream that refuses to list its models is reachable, but has none that could be found by its list.
            is_unreachable = isinstance(error, UpstreamError) and (error.lost or error.status in FAILURE_STATUSES)
            known.known = known.known or not is_unreachable
        known.asked_at = self._clock()


def _renamed_entries(body: bytes, public: Mapping[str, str]) -> list[JSON]:
    """Return the entries of one list of models with their public names as `id`."""
    try:
        document = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return []
    entries = (document.get("data") or document.get("models")) if isinstance(document, dict) else None
    found: list[JSON] = []
    for entry in entries if isinstance(entries, list) else ():
        name = (entry.get("id") or entry.get("model") or entry.get("name")) if isinstance(entry, dict) else None
        own = name.removeprefix("models/") if isinstance(name, str) else ""
        if own in public:
            found.append({**entry, "id": public[own]})
    return found
