"""What stands between one request and the upstream: the shim, the names of native tools, or nothing.

Rule: a model's settings decide, in the client as in the proxy; how the upstream is asked first, or next, is not known
here.
Neighbours: `asking` says when to make an exchange and with what; `shim`, `native`, `doubt` and `retry` are made.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from fcshim.asking import Asked
from fcshim.codecs.upstreams import UpstreamKind
from fcshim.config import ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.doubt import Doubted
from fcshim.inquiry import Aptitude
from fcshim.messages import Request, uses_tools
from fcshim.native import Native
from fcshim.profiles import chosen_profile
from fcshim.prompt.budget import PromptBudget
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.retry import tried
from fcshim.servers import OFF, Server
from fcshim.shim import Shim
from fcshim.stage import Stage

logger = logging.getLogger("fcshim.stages")


@dataclass(frozen=True, slots=True)
class Making:
    """Makes the exchanges of one request, which names the model as the upstream does: `asking.Make`.

    `translated`: the request came in another API than the upstream's, so it is fitted to the model even where it has
    no tools. `whole`: its client gets the reply when it is over. `new_id` gives the ids of calls.
    """

    request: Request
    model: ModelConfig
    kind: UpstreamKind
    aptitude: Aptitude
    new_id: Callable[[], str] | None
    whole: bool
    translated: bool = False

    def __call__(self, *, native: bool, server: Server) -> Asked:
        """Make an exchange. Raises `RequestError`."""
        stage = self._stage(native=native, server=server)
        retries = self.model.max_retries
        return tried(self.request, upstream=self.kind.codec, stage=stage, max_retries=retries, whole=self.whole)

    def _stage(self, *, native: bool, server: Server) -> Stage | None:
        request = self.request
        if native and uses_tools(request):
            return self._native()
        if not (self.translated or uses_tools(request) or constrains_document(server.form, request)):
            return None
        shim = shim_for(request, self.model, self.new_id, server)
        if shim.notes:
            logger.info("%s: %s", request.model, "; ".join(shim.notes))
        return shim

    def _native(self) -> Stage:
        request = self.request
        media = chosen_profile(self.model.profile, request.model).media
        stage = Native(request, alphabet=self.kind.name_rules, media=media)
        if self.model.tools == "auto" and request.tools:
            return Doubted(stage, self.aptitude.distrust(request.model))
        return stage


def shim_for(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, server: Server = OFF
) -> Shim:
    """Make the shim of a request, as the model's settings say. Raises `RequestError`."""
    return Shim(
        request,
        dialect=chosen_dialect(model.dialect, request.model),
        profile=chosen_profile(model.profile, request.model),
        tools_style=model.tools_style,
        rescue=model.rescue,
        reasoning=model.reasoning,
        in_reasoning=model.in_reasoning,
        arguments=model.arguments,
        room=PromptBudget(model.max_tools, model.prompt_budget, model.max_result),
        new_id=new_id,
        server=server,
    )
