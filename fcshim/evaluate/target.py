"""The endpoint and the model that are examined: real requests, each short, and everything that came back.

Rule: nothing is raised for what an endpoint answers; an `Answer` tells it, the time and the bytes included.
Neighbours: the probes ask here; the upstream's codec writes the requests and reads the answers.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from fcshim.backends import Backend
from fcshim.detection import lookup
from fcshim.errors import UpstreamError
from fcshim.events import JSON, Error, Event, Reasoning, Text
from fcshim.messages import AssistantMessage, Message, Request, SystemMessage, TextPart, UserMessage
from fcshim.reply import Reply, fold
from fcshim.upstream import Upstream

HELLO = "Say hello."
"""The simple question."""
RESPONSE_TIMEOUT = 180.0
"""Seconds for one answer: a model that is loaded on a CPU, and then reads a prompt of some hundred tokens."""
_MAX_BYTES = 2**20
"""Bytes of an answer that are kept: probes ask for some hundred tokens."""
_EXCERPT_LENGTH = 160
_REJECTION_STATUSES = (400, 404, 415, 422, 500, 501, 502)
"""Statuses by which servers say that they do not do what was asked, the ones that say so wrongly included."""

StopCondition = Callable[[str, str], bool]
"""Is given the text and the reasoning so far; true where enough was seen."""


class ProbeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one request: the status (0 where there was none), the events folded, the bytes as they came.

    `arrivals` are the seconds at which text or reasoning came, each since the request; `seconds` is when it was over.
    """

    status: int
    reply: Reply = Reply()
    raw: bytes = b""
    problem: str = ""
    arrivals: tuple[float, ...] = ()
    seconds: float = 0.0
    complete: bool = True
    """False where reading stopped because enough was seen."""

    @property
    def ok(self) -> bool:
        """Whether it is a reply."""
        return self.status == 200 and not self.problem

    @property
    def rejected(self) -> bool:
        """Whether the server says that it cannot do that; a server that is away or busy does not say so."""
        return self.status in _REJECTION_STATUSES or (self.status == 200 and bool(self.problem))

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.reply.text

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the prompt had, as the server counts; 0 where it does not tell."""
        return self.reply.usage.input_tokens if self.reply.usage is not None else 0

    def error_summary(self) -> str:
        """Give what went wrong in one short line."""
        return excerpt(self.problem) or f"HTTP {self.status}"


class ProbeTarget:
    """One model of one endpoint; `server` is its kind, as far as it is known."""

    def __init__(self, upstream: Upstream, model: str, backend: Backend, model_list: JSON = None) -> None:
        self.upstream = upstream
        self.model = model
        self.backend = backend
        self.model_list = model_list
        """What the list of models says."""
        self.sampling: dict[str, JSON] = {"temperature": 0.0, "seed": 1}
        self.baseline = ProbeResponse(status=0, problem="nothing was asked yet")
        """The answer to a simple question, with which others are compared."""
        self.baseline_tokens = 0
        """How many tokens its prompt had; 0 where nobody counts."""
        self.streaming = True
        """Whether replies are asked for as streams; some servers count tokens in whole replies only."""
        self.emits_reasoning = False
        """Whether the model was seen to reason before it answers."""
        self.request_count = 0

    def make_request(self, *messages: Message, max_tokens: int, **fields: JSON) -> Request:
        """Make a request in this model's name that says always the same, as far as the server lets one ask for that."""
        return Request(model=self.model, messages=messages, max_tokens=max_tokens, **{**self.sampling, **fields})

    async def send(
        self,
        request: Request,
        *,
        edit_body: Callable[[JSON], JSON] | None = None,
        stop_when: StopCondition | None = None,
    ) -> ProbeResponse:
        """Ask for a reply. `change` alters the body as it is sent; reading stops where `enough` says so."""
        outgoing = self.upstream.kind.codec.encode_request(request)
        changes = [*([] if self.streaming else [_disable_streaming]), *([] if edit_body is None else [edit_body])]
        for alter in changes:
            body = msgspec.json.encode(alter(msgspec.json.decode(outgoing.body)))
            outgoing = msgspec.structs.replace(outgoing, body=body)
        self.request_count += 1
        reading = _ResponseReader(self.upstream, stop_when)
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT), self.upstream.send_request(outgoing) as reply:
                reading.status = reply.status
                if reply.status != 200:
                    error = self.upstream.kind.codec.decode_error(reply.status, {}, await reply.read_error())
                    reading.problem = error.message
                else:
                    async for data in reply:
                        if reading.feed(data):
                            break
        except TimeoutError:
            reading.problem = f"no whole answer within {RESPONSE_TIMEOUT:g} s"
        except UpstreamError as error:
            reading.problem = error.message
        return reading.finish()

    def extra_prompt_tokens(self, response: ProbeResponse) -> int | None:
        """Give how many tokens more the prompt had than the simple question; None where nobody counts."""
        if not (response.prompt_tokens and self.baseline_tokens):
            return None
        return response.prompt_tokens - self.baseline_tokens

    async def rendered_prompt(self, messages: JSON) -> str:
        """Give the prompt that the server makes of `messages`, where it shows that, as llama-server does."""
        if self.backend.api != "llamacpp":
            return ""
        shown = await self.fetch_json("POST", "//apply-template", {"model": self.model, "messages": messages})
        prompt = lookup(shown, "prompt")
        return prompt if isinstance(prompt, str) else ""

    async def fetch_json(self, method: str, path: str, body: JSON = None) -> JSON:
        """Ask for a page of JSON; None where there is none."""
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                status, answer = await self.upstream.fetch(method, path, content)
            return msgspec.json.decode(answer) if status == 200 else None
        except (TimeoutError, UpstreamError, ValueError, RecursionError):
            return None


def _disable_streaming(body: JSON) -> JSON:
    """Ask for a reply in one piece."""
    return {name: value for name, value in body.items() if name != "stream_options"} | {"stream": False}


class _ResponseReader:
    """An answer while it comes."""

    def __init__(self, upstream: Upstream, stop_when: StopCondition | None) -> None:
        self.status = 0
        self.problem = ""
        self._masked = upstream.mask_key
        self._decoder = upstream.kind.codec.decoder()
        self._stop_when = stop_when
        self._started = time.monotonic()
        self._raw = bytearray()
        self._events: list[Event] = []
        self._arrivals: list[float] = []
        self._received = ["", ""]
        self._stopped_early = False

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; true where no more are wanted."""
        self._raw += data
        now = time.monotonic() - self._started
        for _, event in self._decoder.feed(data):
            self._add_event(event, now)
        enough = self._stop_when is not None and self._stop_when(*self._received)
        self._stopped_early = enough or len(self._raw) > _MAX_BYTES
        return self._stopped_early

    def finish(self) -> ProbeResponse:
        """Give what has come."""
        if self.status == 200 and not self._stopped_early:
            for _, event in self._decoder.close():
                self._add_event(event, time.monotonic() - self._started)
        reply = fold(self._events)
        broken = "" if reply.error is None or self._stopped_early else reply.error.message
        return ProbeResponse(
            status=self.status,
            reply=reply,
            raw=bytes(self._raw),
            problem=self._masked((self.problem or broken).encode()).decode(),
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
    """Make what a user says."""
    return UserMessage((TextPart(text),))


def system_message(text: str) -> SystemMessage:
    """Make a system message."""
    return SystemMessage((TextPart(text),))


def assistant_message(text: str) -> AssistantMessage:
    """Make what the model said."""
    return AssistantMessage((TextPart(text),))


def excerpt(text: str) -> str:
    """Give the beginning of a text in one line that a terminal or a comment may hold."""
    line = "".join(sign if sign.isprintable() else "�" for sign in " ".join(text[: 4 * _EXCERPT_LENGTH].split()))
    return line if len(line) <= _EXCERPT_LENGTH else line[: _EXCERPT_LENGTH - 1] + "…"
