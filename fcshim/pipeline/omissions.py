"""The table of what an upstream may refuse in a request, and the request without it.

Rule: a part is listed only if the request means the same without it, or if the model gets a text in its place. Fields
and roles are refused in words that name them. Images, sound and files are refused in any words (servers report the
type of their own variable), so they are suspected wherever the request has some, after everything that is named.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, UpstreamError
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Part,
    Request,
    SystemMessage,
    TextPart,
    UserMessage,
    count_leading_system,
    has_media,
)
from fcshim.prompt.content import join_contents
from fcshim.prompt.history import as_system_note

_replace = msgspec.structs.replace

_STATUSES = frozenset({400, 404, 500, 501, 502})
"""Statuses of a refusal, as the client would get them (422 is 400, other statuses are 502)."""
_UNSUPPORTED = (
    r"(?:(?:\b(?:not|cannot|no longer)|n't) (?:\w+ )?(?:support|accept|allow|permit|enabl|recogni|configured|compiled)"
    r"|\b(?:unsupported|unrecognized|unknown|unexpected|invalid content)|\bonly (?:supported|available|accepts?)\b"
    r"|\bextra (?:inputs|fields)|extra_forbidden|additional propert)"
)


@dataclass(frozen=True, slots=True)
class Omission:
    """One part of a request that an upstream may refuse.

    `wording`: the pattern of its refusals, compiled when one is needed; empty for a part that is refused in any words.
    `leave_out` returns the request itself if it has no such part.
    """

    name: str
    summary: str
    wording: str
    leave_out: Callable[[Request], Request]
    adds_usage: bool = False
    """Whether the part is the request for usage, which all our requests contain, but not all requests of clients."""

    @property
    def is_medium(self) -> bool:
        """Whether the part is media, whose refusal is known only from the success without them."""
        return not self.wording

    def is_meant_by(self, error: FcshimError) -> bool:
        """Return whether an error of the upstream may be a refusal of this part, if a request has it."""
        if error.status not in _STATUSES or error.kind == CONTEXT_LENGTH:
            return False
        if isinstance(error, UpstreamError) and (error.lost or error.key_refused):
            return False
        return re.search(self.wording, error.message, re.IGNORECASE | re.DOTALL) is not None


def _refused_field(name: str) -> str:
    """Return the pattern of an error that names a field of the request and says that it is unsupported."""
    word = rf"(?<![\w-]){name}(?![\w-])"
    return rf"{word}.{{0,120}}{_UNSUPPORTED}|{_UNSUPPORTED}.{{0,120}}{word}"


def _without_media(*kinds: str) -> Callable[[Request], Request]:
    """Return the function that replaces media of these kinds (`image`) by lines of text.

    Without kinds it replaces all, in a request that has several.
    """

    def is_refused(part: Part) -> bool:
        return isinstance(part, MediaPart) and (not kinds or _kind(part) in kinds)

    def leave_out(request: Request) -> Request:
        found = {_kind(part) for message in request.messages for part in message.content if is_refused(part)}
        if len(found) < (1 if kinds else 2):
            return request
        return _replace(request, messages=tuple(_with_lines(message, is_refused) for message in request.messages))

    return leave_out


def _kind(part: Part) -> str:
    return part.media_type.partition("/")[0] if isinstance(part, MediaPart) else "text"


def _with_lines(message: Message, is_refused: Callable[[Part], bool]) -> Message:
    """Write a line for each refused part. Adjacent texts are one text, so they stay together."""
    if not any(map(is_refused, message.content)):
        return message
    lines: list[Content] = []
    for is_text, group in itertools.groupby(message.content, key=lambda part: isinstance(part, TextPart)):
        run = tuple(group)
        if is_text:
            lines.append(run)
            continue
        for part in run:
            line = part
            if isinstance(part, MediaPart) and is_refused(part):
                noun = {"image": "An image", "audio": "A sound", "video": "A video"}.get(_kind(part), "A file")
                line = TextPart(
                    f"[{noun} ({part.media_type}) was sent here. It cannot be shown: this model takes only text.]"
                )
            lines.append((line,))
    return _replace(message, content=join_contents(lines, "\n"))


def _without_system(request: Request) -> Request:
    """Write system messages into the user's turns: the first ones plainly, later ones as notes."""
    if not _has_system(request.messages):
        return request
    return _replace(request, messages=tuple(_system_as_user(request.messages)))


def _with_one_system(request: Request) -> Request:
    """Join the first system messages, and write later ones into the user's turns as notes."""
    count = count_leading_system(request.messages)
    first, rest = request.messages[:count], request.messages[count:]
    if count < 2 and not _has_system(rest):
        return request
    system = (SystemMessage(join_contents([message.content for message in first], "\n\n")),) if first else ()
    return _replace(request, messages=(*system, *_system_as_user(rest, started=True)))


def _has_system(messages: Iterable[Message]) -> bool:
    return any(isinstance(message, SystemMessage) for message in messages)


def _system_as_user(messages: Iterable[Message], *, started: bool = False) -> Iterator[Message]:
    waiting: list[Content] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            waiting.append(as_system_note(message.content) if started else message.content)
            continue
        started = True
        if waiting and isinstance(message, UserMessage):
            yield UserMessage(join_contents([*waiting, message.content], "\n\n"))
        elif waiting:
            yield from (UserMessage(join_contents(waiting, "\n\n")), message)
        else:
            yield message
        waiting = []
    if waiting:
        yield UserMessage(join_contents(waiting, "\n\n"))


def _alternating(request: Request) -> Request:
    """Join turns of the same role that have no calls."""
    messages: list[Message] = []
    for kind, group in itertools.groupby(request.messages, key=_turn_kind):
        turns = tuple(group)
        if len(turns) > 1 and kind in (UserMessage, AssistantMessage):
            messages.append(kind(join_contents([turn.content for turn in turns], "\n\n")))
        else:
            messages += turns
    return request if len(messages) == len(request.messages) else _replace(request, messages=tuple(messages))


def _turn_kind(message: Message) -> type[Message] | str:
    has_more = isinstance(message, AssistantMessage) and (message.tool_calls or message.reasoning)
    return "with calls" if has_more else type(message)


def _without_reasoning(request: Request) -> Request:
    if not any(isinstance(message, AssistantMessage) and message.reasoning for message in request.messages):
        return request
    messages = (
        _replace(message, reasoning="", signature="") if isinstance(message, AssistantMessage) else message
        for message in request.messages
    )
    return _replace(request, messages=tuple(messages))


def _without_stop(request: Request) -> Request:
    return _replace(request, stop=()) if request.stop else request


def _with_parallel_calls(request: Request) -> Request:
    return request if request.allows_parallel_calls else _replace(request, parallel_tool_calls=None)


def _chat_options(request: Request, **changes: bool) -> Request:
    """Change how the Chat API's request is written."""
    options = ChatClientOptions.of(request)
    changed = _replace(options, **changes)
    return request if changed == options else _replace(request, client_options=changed)


STOP = Omission(
    "stop", "stop sequences, which are searched here", _refused_field("stop(?:_?sequences?)?"), _without_stop
)

OMISSIONS: tuple[Omission, ...] = (
    Omission(
        "later_system",
        "system messages after the first; they become notes in the user's turns",
        r"system.{0,40}(?:beginning|first|start|only one|multiple)|(?:only one|multiple|more than one) system",
        _with_one_system,
    ),
    Omission(
        "system",
        "the system role; its text opens the next turn of the user",
        (
            rf"system.{{0,80}}{_UNSUPPORTED}|{_UNSUPPORTED}.{{0,80}}\bsystem\b|{_UNSUPPORTED}.{{0,40}}\broles?\b"
            r"|only user.{0,20}assistant|should be .user. or .assistant|invalid role|role.{0,20}(?:invalid|unknown)"
            r"|developer instruction is not enabled|roles? must alternate|must alternate between"
        ),
        _without_system,
    ),
    Omission(
        "alternation",
        "turns of one role that follow one another; they are joined",
        r"roles? must alternate|must alternate between|consecutive|same role",
        _alternating,
    ),
    Omission(
        "reasoning", "the reasoning of earlier turns", _refused_field("reasoning(?:_content)?"), _without_reasoning
    ),
    STOP,
    Omission(
        "parallel_tool_calls",
        "parallel_tool_calls; further calls are left out here",
        _refused_field("parallel_tool_calls"),
        _with_parallel_calls,
    ),
    Omission(
        "max_tokens",
        "the name max_tokens; it is sent as max_completion_tokens",
        r"max_tokens\b.{0,120}\bmax_completion_tokens",
        lambda request: request if request.max_tokens is None else _chat_options(request, max_completion_tokens=True),
    ),
    Omission(
        "max_completion_tokens",
        "the name max_completion_tokens; it is sent as max_tokens",
        _refused_field("max_completion_tokens"),
        lambda request: request if request.max_tokens is None else _chat_options(request, max_completion_tokens=False),
    ),
    Omission(
        "stream_options",
        "stream_options; the usage is then estimated",
        _refused_field("stream_options"),
        lambda request: _chat_options(request, stream_usage=False),
        adds_usage=True,
    ),
    Omission("files", "files; a line of text replaces each", "", _without_media("application", "text")),
    Omission("sound", "sound and video; a line of text replaces each", "", _without_media("audio", "video")),
    Omission("images", "images; a line of text replaces each", "", _without_media("image")),
    Omission("media", "images, sound and files; a line of text replaces each", "", _without_media()),
)
"""The order is that in which they are applied, and in which they are suspected."""


def without(request: Request, omissions: Sequence[Omission]) -> Request:
    """Return the request without these parts."""
    for omission in OMISSIONS:
        if omission in omissions:
            request = omission.leave_out(request)
    return request


def has_any(request: Request, omissions: Iterable[Omission]) -> bool:
    """Return whether the request, as its client sent it, has one of these parts."""
    present = (each for each in omissions if request.include_usage or not each.adds_usage)
    return any(omission.leave_out(request) is not request for omission in present)


def media_of(request: Request) -> tuple[Omission, ...]:
    """Return the rows of the media that the request has."""
    if not has_media(request):
        return ()
    return tuple(each for each in OMISSIONS if each.is_medium and each.leave_out(request) is not request)
