"""How one upstream holds its models to calls: the kind of server that it is, and which constraints it refused.

Rule: the server is asked once, and only when there is something to hold a reply to; a constraint that was refused is
not sent again, and where none was ever taken, soon no other one either.
Neighbours: `detection` finds the kind of server; `client` and `server` ask by way of `asking`, and tell what happened.
"""

from fcshim.backends import GENERIC, OFF, Backend, backend_of_api, get_backend
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.constrain.response_format import requested_schema
from fcshim.detection import detect
from fcshim.errors import FcshimError, UpstreamError
from fcshim.messages import Request
from fcshim.retry.prefill import PREFILL
from fcshim.upstream import Upstream

AUTO = "auto"
_MAX_REFUSALS = 3
"""Constraints that are refused before no other one is tried where none was ever taken: it is not their content, then.
Where one was, it is: a single client with odd schemas must not take constraints away from all."""
_MAX_REMEMBERED = 1_000
"""Refused constraints that are remembered, 0.1 MB; the oldest is tried again."""
_NOT_GRAMMARS = frozenset({"", PREFILL})
"""That a turn may not be begun for the model says nothing of grammars, nor they of that."""
_REFUSAL_STATUSES = frozenset({400, 404, 422, 500, 501, 502})


class ConstraintSupport:
    """What is known of one upstream. `setting` is `auto`, `off`, or the name of a kind of server."""

    def __init__(self, upstream: Upstream, setting: str = AUTO) -> None:
        """Raises `ConfigError` for an unknown name."""
        self._upstream = upstream
        self._backend = _configured_backend(setting, upstream)
        self._refused: dict[str, None] = {}
        self._suspected = ""
        self._accepts_grammars = False

    async def backend(self, request: Request, *, for_retry: bool = False) -> Backend:
        """Give the kind of server, where there is something to hold the reply to, or it is asked for `again`.

        One that is away is tried without.
        """
        if self._backend is None and (for_retry or _needs_constraint(request)):
            self._backend = await self._detect() if self._upstream.kind.full_openai_api else GENERIC
        return self._backend or GENERIC

    def is_refused(self, key: str) -> bool:
        """Tell whether this constraint need not be tried; no constraint never was."""
        return key in self._refused or (self._refuses_all and key not in _NOT_GRAMMARS)

    def record_refusal(self, key: str, *, stated: bool = True) -> None:
        """Take note that a request got through without this constraint, and not with it.

        Where the server has not `told` so but the connection was lost, that may be because of the constraint (which
        llama-cpp-python dies of) or because the server was stopped just then: twice in a row tells.
        """
        if not stated and self._suspected != key:
            self._suspected = key
            return
        self._refused[key] = None
        if len(self._refused) > _MAX_REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def record_success(self, key: str) -> None:
        """Take note that a request got through with this constraint, if it had one."""
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
    """Give the kind of server that is set, or that alone speaks the API; None where it must be found out."""
    if setting == AUTO:
        return backend_of_api(upstream.kind.name)
    return OFF if setting == OFF.name else get_backend(setting)


def _needs_constraint(request: Request) -> bool:
    """Tell whether there is something to hold the reply to."""
    demanded = request.tool_choice.mode == "required" and bool(request.tools)
    return demanded or any(tool.strict for tool in request.tools) or requested_schema(request) is not None


def may_refuse_constraint(error: FcshimError) -> bool:
    """Tell whether an upstream's answer may be about the constraint: it found something wrong with the request."""
    return error.status in _REFUSAL_STATUSES and error.kind != CONTEXT_LENGTH
