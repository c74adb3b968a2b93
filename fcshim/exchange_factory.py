"""Makes the exchange of a request, with the transform that the model's settings ask for: shim, native tools, or none.

Rule: the same settings give the same transform in the client and in the proxy. `dispatch` decides when to make an
exchange, and whether for native tools or the prompt.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from fcshim.codecs.upstreams import UpstreamKind
from fcshim.config import ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.dispatch import AnyExchange
from fcshim.messages import Request, uses_tools
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.native import Native
from fcshim.pipeline.native_check import CheckedNative
from fcshim.pipeline.retry import make_exchange
from fcshim.pipeline.shim import Shim
from fcshim.pipeline.transform import Transform
from fcshim.profiles import chosen_profile
from fcshim.prompt.budget import PromptBudget
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.upstream.capabilities import ToolSupport

logger = logging.getLogger("fcshim.dispatch")


@dataclass(frozen=True, slots=True)
class ExchangeFactory:
    """Makes the exchanges of one request; implements `dispatch.MakeExchange`.

    `request` names the model as the upstream does. `translated`: the request came in another API than the upstream's,
    so the shim adapts it to the model even without tools. `buffered`: the client gets the reply in one piece at its
    end. `new_id` makes the ids of calls.
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
        transform = self._make_transform(native=native, backend=backend)
        retries = self.model.max_retries
        return make_exchange(
            self.request, upstream=self.kind.codec, transform=transform, max_retries=retries, buffered=self.buffered
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
        transform = Native(request, name_rules=self.kind.name_rules, media=media)
        if self.model.tools == "auto" and request.tools:
            return CheckedNative(transform, self.tool_support.native_failure_handler(request.model))
        return transform


def make_shim(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, backend: Backend = OFF
) -> Shim:
    """Make the shim of a request from the model's settings. Raises `RequestError`."""
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
