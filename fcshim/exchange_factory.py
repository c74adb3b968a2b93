"""What stands between one request and the upstream: the shim, the names of native tools, or nothing.

Rule: a model's settings decide, in the client as in the proxy; how the upstream is asked first, or next, is not known
here.
Neighbours: `asking` says when to make an exchange and with what; `shim`, `native`, `doubt` and `retry` are made.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from fcshim.backends import OFF, Backend
from fcshim.capabilities import ToolSupport
from fcshim.codecs.upstreams import UpstreamKind
from fcshim.config import ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.dispatch import AnyExchange
from fcshim.messages import Request, uses_tools
from fcshim.native import Native
from fcshim.native_check import CheckedNative
from fcshim.profiles import chosen_profile
from fcshim.prompt.budget import PromptBudget
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.retry import make_exchange
from fcshim.shim import Shim
from fcshim.transform import Transform

logger = logging.getLogger("fcshim.exchange_factory")


@dataclass(frozen=True, slots=True)
class ExchangeFactory:
    """Makes the exchanges of one request, which names the model as the upstream does: `asking.Make`.

    `translated`: the request came in another API than the upstream's, so it is fitted to the model even where it has
    no tools. `whole`: its client gets the reply when it is over. `new_id` gives the ids of calls.
    """

    request: Request
    model: ModelConfig
    kind: UpstreamKind
    tool_support: ToolSupport
    new_id: Callable[[], str] | None
    buffered: bool
    translated: bool = False

    def __call__(self, *, native: bool, backend: Backend) -> AnyExchange:
        """Make an exchange. Raises `RequestError`."""
        stage = self._make_transform(native=native, backend=backend)
        retries = self.model.max_retries
        return make_exchange(
            self.request, upstream=self.kind.codec, transform=stage, max_retries=retries, buffered=self.buffered
        )

    def _make_transform(self, *, native: bool, backend: Backend) -> Transform | None:
        request = self.request
        if native and uses_tools(request):
            return self._make_native()
        if not (self.translated or uses_tools(request) or constrains_document(backend.form, request)):
            return None
        shim = make_shim(request, self.model, self.new_id, backend)
        if shim.notes:
            logger.info("%s: %s", request.model, "; ".join(shim.notes))
        return shim

    def _make_native(self) -> Transform:
        request = self.request
        media = chosen_profile(self.model.profile, request.model).media
        stage = Native(request, name_rules=self.kind.name_rules, media=media)
        if self.model.tools == "auto" and request.tools:
            return CheckedNative(stage, self.tool_support.native_failure_handler(request.model))
        return stage


def make_shim(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, backend: Backend = OFF
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
        budget=PromptBudget(model.max_tools, model.prompt_budget, model.max_result),
        new_id=new_id,
        backend=backend,
    )
