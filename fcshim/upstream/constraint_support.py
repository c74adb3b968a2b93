"""Which constraints one upstream accepts: its backend, and the constraints that it refused.

Rule: the backend is detected once, and only when a request needs a constraint. A refused constraint is not sent again;
after three refusals and no success, no constraint is sent at all.
"""

from dataclasses import replace

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.constrain.response_format import requested_schema
from fcshim.errors import FcshimError, UpstreamError
from fcshim.messages import Request
from fcshim.pipeline.backends import GENERIC, OFF, Backend, backend_of_api, get_backend
from fcshim.pipeline.retry.prefill import PREFILL
from fcshim.upstream import Upstream
from fcshim.upstream.detection import detect

AUTO = "auto"
_MAX_REFUSALS = 3
"""Refusals after which no constraint is sent, if none was ever accepted: the upstream does not support them at all.
If one was, their content is at fault, and a single client with odd schemas must not disable constraints for all."""
_MAX_REMEMBERED = 1_000
"""Refused constraints that are remembered (0.1 MB). Beyond that the oldest is forgotten, so it is sent again."""
_NOT_GRAMMARS = frozenset({"", PREFILL})
"""Keys that say nothing about grammars: an upstream may refuse a prefill and accept grammars, or the reverse."""
_REFUSAL_STATUSES = frozenset({400, 404, 422, 500, 501, 502})
"""Statuses with which a server may refuse a constraint, or with which fcshim reports that it dropped the connection."""


class ConstraintSupport:
    """What is known about one upstream. `setting` is `auto`, `off`, or the name of a backend."""

    def __init__(self, upstream: Upstream, setting: str = AUTO) -> None:
        """Raises `ConfigError` for an unknown name."""
        self._upstream = upstream
        self._backend = _configured_backend(setting, upstream)
        self._refused: dict[str, None] = {}
        self._suspected = ""
        self._accepts_grammars = False

    async def backend(self, request: Request, *, for_retry: bool = False) -> Backend:
        """Return the upstream's backend, after detecting it if the request needs a constraint or is a retry.

        `GENERIC`, which sends no constraint, if detection is not needed or the upstream cannot be reached.
        """
        if self._backend is None and (for_retry or _needs_constraint(request)):
            self._backend = await self._detect() if self._upstream.kind.full_openai_api else GENERIC
        return self._backend or GENERIC

    def is_refused(self, key: str) -> bool:
        """Return whether the upstream refuses this constraint; false for the empty key, which is no constraint."""
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
            return (await detect(self._upstream)).backend
        except UpstreamError:
            return None


def _configured_backend(setting: str, upstream: Upstream) -> Backend | None:
    """Return the backend that the setting names, or the only one with the upstream's API; None to detect it."""
    if setting == AUTO:
        return backend_of_api(upstream.kind.name)
    return OFF if setting == OFF.name else replace(get_backend(setting), demanded=True)


def _needs_constraint(request: Request) -> bool:
    """Return whether a constraint could enforce something: a required call, a strict tool or a document schema."""
    call_required = request.tool_choice.mode == "required" and bool(request.tools)
    return call_required or any(tool.strict for tool in request.tools) or requested_schema(request) is not None


def may_refuse_constraint(error: FcshimError) -> bool:
    """Return whether an error may be about the constraint: the upstream rejected the request or broke on it."""
    return error.status in _REFUSAL_STATUSES and error.kind != CONTEXT_LENGTH
