"""How one request is put to an upstream: by its own tools or by the prompt, with a constraint or without, once more.

Rule: what an upstream refuses is left out and asked again at once, as long as its client has seen nothing; what it
refused is remembered. Nothing is read or written here.
Neighbours: `inquiry` and `enforcement` know the upstream; `client` and `server` do the I/O of what is given to them.
"""

import logging
from typing import Protocol

from fcshim.config import ToolsPolicy
from fcshim.enforcement import Enforcement, may_refuse_constraint
from fcshim.errors import FcshimError, UpstreamError
from fcshim.exchange import Exchange
from fcshim.inquiry import Aptitude, refuses_tools
from fcshim.messages import Request, uses_tools
from fcshim.retry import Tries
from fcshim.servers import OFF, Server, unconstrained

logger = logging.getLogger("fcshim.asking")
retry_logger = logging.getLogger("fcshim.retry")

Asked = Exchange | Tries


class Make(Protocol):
    """Makes the exchange of a request."""

    def __call__(self, *, native: bool, server: Server) -> Asked:
        """Make it for the upstream's own tools, or for the prompt and what that kind of server takes."""
        ...


class Question:
    """One request. `begin`, then for as long as there is something to send: send it, and say what came of it.

    `request` names the model as the upstream does.
    """

    def __init__(
        self, request: Request, make: Make, *, tools: ToolsPolicy, aptitude: Aptitude, enforcement: Enforcement
    ) -> None:
        self._request = request
        self._make = make
        self._tools = tools
        self._aptitude = aptitude
        self._enforcement = enforcement
        self._native = False
        self._suspected = ""  # a constraint without which the request is asked again
        self._told = True  # whether the upstream said that it refuses it

    async def begin(self) -> Asked:
        """Give what to send first. Raises `RequestError`."""
        self._native = await is_native(self._request, self._tools, self._aptitude)
        return await self._made()

    async def instead(self, asked: Asked, error: FcshimError, *, late: bool = False) -> Asked | None:
        """Give what to send instead of what was refused; None where there is nothing, or it is too `late` for that."""
        if isinstance(asked, Tries) and asked.repeated:
            return await self._repeated_freely(asked, error)
        if late:
            return None
        if self._native and self._tools == "auto" and self._request.tools and refuses_tools(error):
            self._aptitude.distrust(self._request.model)(error.message)
            self._native = False
            return await self._made()
        if not self._refuses_constraint(asked, error):
            return None
        return self._make(native=self._native, server=OFF)

    def accepted(self, asked: Asked) -> None:
        """Take note that the upstream has answered what was sent last."""
        self._enforcement.trust(asked.constraint)
        if self._suspected:
            self._enforcement.learn(self._suspected, told=self._told)
            self._suspected = ""

    async def again(self, asked: Asked) -> bool:
        """Make the next try ready to be sent, where one is wanted; it stays wanted where it cannot be made."""
        if not (isinstance(asked, Tries) and asked.again):
            return False
        server = await self._enforcement.server(self._request, again=True)
        if not asked.ask_again(server):
            return False
        if self._enforcement.is_refused(asked.constraint):
            asked.ask_again(unconstrained(server))
        constrained = ", held to a grammar" if asked.constraint else ""
        retry_logger.info("%s: asked once more%s: %s", self._request.model, constrained, asked.reason)
        return True

    async def _made(self) -> Asked:
        native = self._native and uses_tools(self._request)
        server = OFF if native else await self._enforcement.server(self._request)
        asked = self._make(native=self._native, server=server)
        if self._enforcement.is_refused(asked.constraint):
            # The model's turn may be begun for it instead; that may be what is refused, too.
            asked = self._make(native=self._native, server=unconstrained(server))
        if self._enforcement.is_refused(asked.constraint):
            asked = self._make(native=self._native, server=OFF)
        return asked

    async def _repeated_freely(self, asked: Tries, error: FcshimError) -> Tries | None:
        if asked.passed or not self._refuses_constraint(asked, error):
            return None
        asked.ask_again(unconstrained(await self._enforcement.server(self._request, again=True)))
        return asked

    def _refuses_constraint(self, asked: Asked, error: FcshimError) -> bool:
        if not asked.constraint or not may_refuse_constraint(error):
            return False
        self._suspected = asked.constraint
        self._told = not (isinstance(error, UpstreamError) and error.lost)
        logger.warning("%s: the upstream may refuse the constraint: %s", self._request.model, error.message)
        return True


async def is_native(request: Request, tools: ToolsPolicy, aptitude: Aptitude) -> bool:
    """Tell whether the request goes by the upstream's own tools."""
    if tools == "auto" and uses_tools(request):
        return await aptitude.is_native(request.model)
    return tools == "native"
