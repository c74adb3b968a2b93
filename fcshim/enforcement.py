"""How one upstream holds its models to calls: the kind of server that it is, and which constraints it refused.

Rule: the server is asked once, and only when there is something to hold a reply to; a constraint that was refused is
not sent again, and where none was ever taken, soon no other one either.
Neighbours: `detection` finds the kind of server; `client` and `server` ask by way of `asking`, and tell what happened.
"""

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.constrain.response_format import requested_schema
from fcshim.detection import detect
from fcshim.errors import FcshimError, UpstreamError
from fcshim.messages import Request
from fcshim.retry.beginning import PREFILL
from fcshim.servers import GENERIC, OFF, Server, get_server, server_that_speaks
from fcshim.upstream import Upstream

AUTO = "auto"
_MOST_REFUSED = 3
"""Constraints that are refused before no other one is tried where none was ever taken: it is not their content, then.
Where one was, it is: a single client with odd schemas must not take constraints away from all."""
_REMEMBERED = 1_000
"""Refused constraints that are remembered, 0.1 MB; the oldest is tried again."""
_NO_GRAMMAR = frozenset({"", PREFILL})
"""That a turn may not be begun for the model says nothing of grammars, nor they of that."""
_REFUSALS = frozenset({400, 404, 422, 500, 501, 502})


class Enforcement:
    """What is known of one upstream. `setting` is `auto`, `off`, or the name of a kind of server."""

    def __init__(self, upstream: Upstream, setting: str = AUTO) -> None:
        """Raises `ConfigError` for an unknown name."""
        self._upstream = upstream
        self._server = _by_setting(setting, upstream)
        self._refused: dict[str, None] = {}
        self._doubted = ""
        self._takes_grammars = False

    async def server(self, request: Request, *, again: bool = False) -> Server:
        """Give the kind of server, where there is something to hold the reply to, or it is asked for `again`.

        One that is away is tried without.
        """
        if self._server is None and (again or _matters(request)):
            self._server = await self._found() if self._upstream.kind.full_openai_api else GENERIC
        return self._server or GENERIC

    def is_refused(self, constraint: str) -> bool:
        """Tell whether this constraint need not be tried; no constraint never was."""
        return constraint in self._refused or (self._is_hopeless and constraint not in _NO_GRAMMAR)

    def learn(self, constraint: str, *, told: bool = True) -> None:
        """Take note that a request got through without this constraint, and not with it.

        Where the server has not `told` so but the connection was lost, that may be because of the constraint (which
        llama-cpp-python dies of) or because the server was stopped just then: twice in a row tells.
        """
        if not told and self._doubted != constraint:
            self._doubted = constraint
            return
        self._refused[constraint] = None
        if len(self._refused) > _REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def trust(self, constraint: str) -> None:
        """Take note that a request got through with this constraint, if it had one."""
        self._takes_grammars = self._takes_grammars or constraint not in _NO_GRAMMAR
        if self._doubted == constraint:
            self._doubted = ""

    @property
    def _is_hopeless(self) -> bool:
        return not self._takes_grammars and len(self._refused.keys() - _NO_GRAMMAR) >= _MOST_REFUSED

    async def _found(self) -> Server | None:
        try:
            return (await detect(self._upstream)).server
        except UpstreamError:
            return None


def _by_setting(setting: str, upstream: Upstream) -> Server | None:
    """Give the kind of server that is set, or that alone speaks the API; None where it must be found out."""
    if setting == AUTO:
        return server_that_speaks(upstream.kind.name)
    return OFF if setting == OFF.name else get_server(setting)


def _matters(request: Request) -> bool:
    """Tell whether there is something to hold the reply to."""
    demanded = request.tool_choice.mode == "required" and bool(request.tools)
    return demanded or any(tool.strict for tool in request.tools) or requested_schema(request) is not None


def may_refuse_constraint(error: FcshimError) -> bool:
    """Tell whether an upstream's answer may be about the constraint: it found something wrong with the request."""
    return error.status in _REFUSALS and error.kind != CONTEXT_LENGTH
