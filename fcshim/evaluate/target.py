"""The endpoint and the model that probes examine: short requests, and complete records of the responses.

Rule: no response raises an exception; a `ProbeResponse` has the failure, and the times and the bytes.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from fcshim.errors import UpstreamError
from fcshim.events import JSON, Error, Event, Reasoning, Text
from fcshim.messages import AssistantMessage, Message, Request, SystemMessage, TextPart, UserMessage
from fcshim.pipeline.backends import Backend
from fcshim.reply import Reply, fold
from fcshim.upstream import Upstream, UpstreamReply
from fcshim.upstream.detection import lookup

HELLO = "Say hello."
"""The user message of the baseline request."""
RESPONSE_TIMEOUT = 180.0
"""Seconds for one response: on a CPU a model may first be loaded, and then process a prompt of some hundred tokens."""
_MAX_BYTES = 2**20
"""Most bytes of a response: probes request some hundred tokens."""
_EXCERPT_LENGTH = 160
_REJECTION_STATUSES = (400, 404, 415, 422, 500, 501, 502)
"""Statuses with which servers reject a request that they do not support; some wrongly answer 404 or 5xx."""

StopCondition = Callable[[str, str], bool]
"""A function of the text and the reasoning so far that returns True when no more of the reply is needed."""


class ProbeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response to one request: the status (0 if there was none), the folded events, the raw bytes.

    `arrivals` are the times of text and reasoning events, in seconds since the request; `seconds` is the end.
    """

    status: int
    reply: Reply = Reply()
    raw: bytes = b""
    problem: str = ""
    arrivals: tuple[float, ...] = ()
    seconds: float = 0.0
    complete: bool = True
    """False if reading stopped early, by the stop condition or at the limit of bytes."""

    @property
    def ok(self) -> bool:
        """Whether the response is a reply without an error."""
        return self.status == 200 and not self.problem

    @property
    def rejected(self) -> bool:
        """Whether the server rejects the request; an unreachable or busy server does not."""
        return self.status in _REJECTION_STATUSES or (self.status == 200 and bool(self.problem))

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.reply.text

    @property
    def prompt_tokens(self) -> int:
        """The number of prompt tokens that the server reports, or 0."""
        return self.reply.usage.input_tokens if self.reply.usage is not None else 0

    def error_summary(self) -> str:
        """Return the error in one short line."""
        return excerpt(self.problem) or f"HTTP {self.status}"


class ProbeTarget:
    """One model of one endpoint; `backend` is the detected kind of server."""

    def __init__(self, upstream: Upstream, model: str, backend: Backend, model_list: JSON = None) -> None:
        self.upstream = upstream
        self.model = model
        self.backend = backend
        self.model_list = model_list
        """The document of the endpoint's list of models, if it was fetched."""
        self.sampling: dict[str, JSON] = {"temperature": 0.0, "seed": 1}
        self.baseline = ProbeResponse(status=0, problem="nothing was asked yet")
        """The response to the simple request with which other responses are compared."""
        self.baseline_tokens = 0
        """The prompt tokens of the baseline; 0 if the server does not report them."""
        self.streaming = True
        """Whether replies are streamed. Some servers report token counts only without streaming."""
        self.emits_reasoning = False
        """Whether a probe has seen reasoning."""
        self.context_length = 0
        """The tokens of context that the server reports; 0 if it reports none."""
        self.context_seconds = 0.0
        """The time for measuring them; 0 to send no long prompt."""
        self.request_count = 0

    def make_request(self, *messages: Message, max_tokens: int, **fields: JSON) -> Request:
        """Return a request to this model, with sampling for reproducible replies unless the server rejects it."""
        return Request(model=self.model, messages=messages, max_tokens=max_tokens, **{**self.sampling, **fields})

    async def send(
        self,
        request: Request,
        *,
        edit_body: Callable[[JSON], JSON] | None = None,
        stop_when: StopCondition | None = None,
    ) -> ProbeResponse:
        """Send a request and read the response; `edit_body` changes the JSON body, `stop_when` ends reading early."""
        outgoing = self.upstream.kind.codec.encode_request(request)
        if edit_body is not None or not self.streaming:
            body = msgspec.json.decode(outgoing.body)
            if not self.streaming:
                body["stream"] = False
                body.pop("stream_options", None)  # valid only with `stream: true`
            body = body if edit_body is None else edit_body(body)
            outgoing = msgspec.structs.replace(outgoing, body=msgspec.json.encode(body))
        self.request_count += 1
        reader = _ResponseReader(self.upstream, stop_when)
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT), self.upstream.send_request(outgoing) as reply:
                await self._read_reply(reply, reader)
        except TimeoutError:
            reader.problem = f"no complete response within {RESPONSE_TIMEOUT:g} s"
        except UpstreamError as error:
            reader.problem = error.message
        return reader.finish()

    async def _read_reply(self, reply: UpstreamReply, reader: "_ResponseReader") -> None:
        reader.status = reply.status
        if reply.status != 200:
            error = self.upstream.kind.codec.decode_error(reply.status, {}, await reply.read_error())
            reader.problem = error.message
            return
        async for data in reply:
            if reader.feed(data):
                return

    def extra_prompt_tokens(self, response: ProbeResponse) -> int | None:
        """Return the prompt tokens beyond those of the baseline, or None if the server does not report tokens."""
        if not (response.prompt_tokens and self.baseline_tokens):
            return None
        return response.prompt_tokens - self.baseline_tokens

    async def rendered_prompt(self, messages: JSON) -> str:
        """Return the prompt that the chat template makes of `messages`, or "". Only llama-server has a page for it."""
        if self.backend.api != "llamacpp":
            return ""
        document = await self.fetch_json("POST", "//apply-template", {"model": self.model, "messages": messages})
        prompt = lookup(document, "prompt")
        return prompt if isinstance(prompt, str) else ""

    async def fetch_json(self, method: str, path: str, body: JSON = None) -> JSON:
        """Return the JSON document of a page, or None if there is none."""
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                status, answer = await self.upstream.fetch(method, path, content)
            return msgspec.json.decode(answer) if status == 200 else None
        except (TimeoutError, UpstreamError, ValueError, RecursionError):
            return None


class _ResponseReader:
    """Collects the events, times and bytes of a response."""

    def __init__(self, upstream: Upstream, stop_when: StopCondition | None) -> None:
        self.status = 0
        self.problem = ""
        self._decoder = upstream.kind.codec.decoder()
        self._stop_when = stop_when
        self._started = time.monotonic()
        self._raw = bytearray()
        self._events: list[Event] = []
        self._arrivals: list[float] = []
        self._received = ["", ""]
        self._stopped_early = False

    def feed(self, data: bytes) -> bool:
        """Process the next bytes. Return True if no more are needed."""
        self._raw += data
        now = time.monotonic() - self._started
        for _, event in self._decoder.feed(data):
            self._add_event(event, now)
        enough = self._stop_when is not None and self._stop_when(*self._received)
        self._stopped_early = enough or len(self._raw) > _MAX_BYTES
        return self._stopped_early

    def finish(self) -> ProbeResponse:
        """Return the response as far as it was read."""
        if self.status == 200 and not self._stopped_early:
            for _, event in self._decoder.close():
                self._add_event(event, time.monotonic() - self._started)
        reply = fold(self._events)
        broken = "" if reply.error is None or self._stopped_early else reply.error.message
        return ProbeResponse(
            status=self.status,
            reply=reply,
            raw=bytes(self._raw),
            problem=self.problem or broken,
            arrivals=tuple(self._arrivals),
            seconds=time.monotonic() - self._started,
            complete=not self._stopped_early,
        )

    def _add_event(self, event: Event, now: float) -> None:
        if isinstance(event, Text | Reasoning) and event.text:
            self._arrivals.append(now)
            self._received[isinstance(event, Reasoning)] += event.text
        if not isinstance(event, Error) or not any(isinstance(each, Error) for each in self._events):
            self._events.append(event)


def user_message(text: str) -> UserMessage:
    """Return a user message."""
    return UserMessage((TextPart(text),))


def system_message(text: str) -> SystemMessage:
    """Return a system message."""
    return SystemMessage((TextPart(text),))


def assistant_message(text: str) -> AssistantMessage:
    """Return an assistant message."""
    return AssistantMessage((TextPart(text),))


def excerpt(text: str) -> str:
    """Return the start of a text as one line, without characters that control a terminal or end a comment."""
    line = "".join(char if char.isprintable() else "�" for char in " ".join(text[: 4 * _EXCERPT_LENGTH].split()))
    return line if len(line) <= _EXCERPT_LENGTH else line[: _EXCERPT_LENGTH - 1] + "…"
