"""Writes a conversation with tools as plain text turns, for a model with the roles system, user and assistant only.

Theory of operation. A conversation is split into steps: messages of the assistant, then the messages that the client
sent in reply. Every request ends at the end of a step, so a decision that depends only on the steps so far comes out
the same in every later request. The text of a step depends on the steps up to it only, so that each prompt is a prefix
of the next one (and the engine's prefix cache hits). The one exception is the profile setting that shows reasoning only
until the next user message.

Rule: every call gets a result within its step, if only a note that there is none, whatever ids, order and gaps the
client's history has. Arguments that are a strict JSON object are kept byte for byte; anything else is repaired as the
parser would repair it, or becomes a string inside an object. Text of clients, tools and models is escaped, so that it
cannot be read as a marker.
"""

import functools
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    count_leading_system,
    has_media_part,
    text_of,
)
from fcshim.parse.dialect import Dialect
from fcshim.parse.readings.json import read_json
from fcshim.parse.readings.steps import NoReadingError
from fcshim.prompt.content import (
    Escaper,
    cached_content,
    escape_content,
    join_contents,
    number_of,
    shorten,
)
from fcshim.prompt.profiles import Profile
from fcshim.prompt.render import HistoryWriter, history_writer, render_reminder
from fcshim.schema.limits import exceeds_depth
from fcshim.schema.strict_json import parse_strict_json

InputMessage = SystemMessage | UserMessage | ToolMessage


class HistoryStep(msgspec.Struct, frozen=True, gc=False):
    """Consecutive messages of the assistant, then consecutive messages of other roles; either may be empty."""

    assistant_messages: tuple[AssistantMessage, ...]
    input_messages: tuple[InputMessage, ...]

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the assistant, in order."""
        return [call for message in self.assistant_messages for call in message.tool_calls]

    @property
    def results(self) -> list[ToolMessage]:
        """The tool results, in the client's order."""
        return [message for message in self.input_messages if isinstance(message, ToolMessage)]

    @property
    def has_user_message(self) -> bool:
        """Whether the step has a user message."""
        for message in self.input_messages:  # noqa: SIM110  # a generator takes three times as long
            if isinstance(message, UserMessage):
                return True
        return False

    def is_self_contained(self, calls: Sequence[ToolCall]) -> bool:
        """Whether the step is text, and its text does not depend on other calls than its own, which are given."""
        ids = {call.id for call in calls}
        for message in (*self.assistant_messages, *self.input_messages):
            if has_media_part(message.content):
                return False
            if isinstance(message, ToolMessage) and message.tool_call_id not in ids:
                return False
        return True


def split_steps(messages: Iterable[Message]) -> list[HistoryStep]:
    """Split a conversation into steps."""
    steps: list[HistoryStep] = []
    assistant: list[AssistantMessage] = []
    inputs: list[InputMessage] = []
    for message in messages:
        if not isinstance(message, AssistantMessage):
            inputs.append(message)
            continue
        if inputs:
            steps.append(HistoryStep(tuple(assistant), tuple(inputs)))
            assistant, inputs = [], []
        assistant.append(message)
    return [*steps, HistoryStep(tuple(assistant), tuple(inputs))] if assistant or inputs else steps


def split_conversation(messages: Sequence[Message]) -> tuple[Sequence[Message], list[HistoryStep]]:
    """Split off the system messages that a conversation begins with; return them and the steps."""
    count = count_leading_system(messages)
    return messages[:count], split_steps(messages[count:])


NO_RESULT = "No result: the call was not carried out, or its result was lost."
NO_CALL = "(The call that this result answers is not part of the conversation.)"
LATE_RESULT = "(This result answers an earlier call.)"


class MatchedResult(msgspec.Struct, frozen=True, gc=False):
    """A result of the tool `name`; `note` is a text for the model, for a late result or one without a call."""

    name: str
    content: Content
    is_error: bool = False
    note: str = ""


class ResultMatcher:
    """Matches the results of one step after the other."""

    def __init__(self) -> None:
        self._names_by_id: dict[str, str] = {}  # of earlier steps; a reused id means the last call

    def match(self, calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> list[MatchedResult]:
        """Return the results of `calls`, in their order, then those that belong to none of them."""
        ids = [call.id for call in calls]
        if ids == [result.tool_call_id for result in results] and len(set(ids)) == len(ids):  # nearly always
            self.record(calls)
            return [_matched(call, result) for call, result in zip(calls, results, strict=True)]
        slots = _CallSlots(calls)
        others = [result for result in results if not slots.assign(result)]
        self.record(calls)
        matched = slots.matched()
        for result in others:
            known = self._names_by_id.get(result.tool_call_id)
            name, note = result.name or known or "unknown", NO_CALL if known is None else LATE_RESULT
            matched.append(MatchedResult(name, result.content, result.is_error, note))
        return matched

    def record(self, calls: Iterable[ToolCall]) -> None:
        """Record the calls of a step: a later one may have a result of theirs."""
        for call in calls:
            self._names_by_id[call.id] = call.name


class _CallSlots:
    """The calls of one step, each with its results."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._results: list[list[ToolMessage]] = [[] for _ in calls]
        self._by_id: dict[str, deque[int]] = {}  # an engine may give two calls the same id
        for at, call in enumerate(calls):
            self._by_id.setdefault(call.id, deque()).append(at)
        self._seen: set[tuple[int, str, bool]] = set()

    def assign(self, result: ToolMessage) -> bool:
        """Assign the result to its call; return whether there is one."""
        indices = self._by_id.get(result.tool_call_id)
        if indices is None:
            return False
        at = indices.popleft() if len(indices) > 1 else indices[0]
        key = (at, text_of(result.content), result.is_error)
        if key not in self._seen or any(isinstance(part, MediaPart) for part in result.content):
            self._results[at].append(result)
            self._seen.add(key)  # some clients send a result twice
        return True

    def matched(self) -> list[MatchedResult]:
        answers: list[MatchedResult] = []
        for call, results in zip(self._calls, self._results, strict=True):
            answers += [_matched(call, result) for result in results]
            if not results:
                answers.append(MatchedResult(call.name, (TextPart(NO_RESULT),), is_error=True))
        return answers


def _matched(call: ToolCall, result: ToolMessage) -> MatchedResult:
    return MatchedResult(result.name or call.name, result.content, result.is_error)


MALFORMED = "malformed_arguments"
"""The member that holds unreadable arguments."""
_MAX_REPAIRED = 64 * 1024
"""Characters that are repaired per conversation, at 5 us each; malformed arguments beyond that become a string."""
_EXCERPT = 2_000
"""Characters kept of unreadable arguments: enough to see the defect."""
_MAX_DEPTH = 64
"""Levels of nesting, as many as a schema may have: notations other than JSON are written by recursion."""


class PastArguments:
    """Writes the arguments of the calls of one conversation, in order."""

    def __init__(self) -> None:
        self._repair_left = _MAX_REPAIRED
        self.repair_attempts = 0

    def write(self, text: str) -> str:
        """Return a strict JSON object: the text itself, or its closest repair."""
        if _is_plain_object(text):
            return text
        value = parse_strict_json(text)
        if isinstance(value, str) and isinstance(inner := parse_strict_json(value), dict):
            text, value = value, inner  # encoded twice
        if isinstance(value, dict) and not exceeds_depth(value, _MAX_DEPTH):
            return text if _is_unicode(text, value) else _json_without_lone_surrogates(value)
        if text.strip() in ("", "null"):
            return "{}"
        repaired = self._repaired(text) if value is None else None
        return repaired or _json_without_lone_surrogates({MALFORMED: shorten(text, _EXCERPT)})

    def _repaired(self, text: str) -> str | None:
        self.repair_attempts += 1
        if not text.lstrip().startswith("{") or len(text) > self._repair_left:
            return None
        self._repair_left -= len(text)
        try:
            repaired = read_json(None, "start", text).text
            value = json.loads(repaired, strict=False)  # raw control characters stay in strings
        except (NoReadingError, ValueError, RecursionError):
            return None
        return (
            _json_without_lone_surrogates(value)
            if isinstance(value, dict) and not exceeds_depth(value, _MAX_DEPTH)
            else None
        )


_decode_object = msgspec.json.Decoder(dict).decode


def _is_plain_object(text: str) -> bool:
    """Return true only if the text is a strict JSON object that is not too deep, in a third of the time of the rest."""
    if text.count("{") + text.count("[") > _MAX_DEPTH:
        return False
    try:
        _decode_object(text)  # rejects lone surrogates too
    except ValueError:
        return False
    return True


def _is_unicode(text: str, value: JSON) -> bool:
    """Return whether the text has no lone surrogate, raw or escaped, since no request could carry one."""
    try:
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_without_lone_surrogates(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


TextTurn = UserMessage | AssistantMessage


class WrittenStep(msgspec.Struct, frozen=True, gc=False):
    """The turns of a step, and the characters of their text."""

    turns: tuple[TextTurn, ...]
    size: int


def _texts_of(step: HistoryStep) -> list[str]:
    """Return all that the turns of a self-contained step depend on, each kind of message with its own number of texts.

    Two steps have the same texts only if they have the same turns.
    """
    texts: list[str] = []
    for message in step.assistant_messages:
        calls = message.tool_calls
        texts += ("assistant", text_of(message.content), message.reasoning, str(len(calls)))
        for call in calls:
            texts += (call.id, call.name, call.arguments)
    for each in step.input_messages:
        text = text_of(each.content)
        if isinstance(each, ToolMessage):
            texts += ("error" if each.is_error else "result", text, each.tool_call_id, each.name)
        else:
            texts += ("user" if isinstance(each, UserMessage) else "system", text)
    return texts


Escape = Callable[[str], str]
_MAX_JOINED = 16_384
"""Characters that are searched for markers as one text."""


class TurnWriter:
    """Writes the steps of one conversation in order."""

    def __init__(
        self,
        escape: Escaper,
        dialect: Dialect,
        profile: Profile,
        *,
        has_tools: bool = False,
        later_descriptions: Mapping[int, str] | None = None,
        after_results: str = "",
    ) -> None:
        self._escape = escape
        self._dialect = dialect
        self._profile = profile
        self._after_results = after_results
        self._style = number_of(dialect, profile, after_results)
        self._later_descriptions = later_descriptions or {}  # tool descriptions after a step, by the step's number
        self._reminder_interval = profile.reminder if has_tools else 0
        self._since_format = 0  # characters since the call format was last written
        self._matcher = ResultMatcher()
        self._arguments = PastArguments()

    @functools.cached_property
    def _history(self) -> HistoryWriter:
        """Needed for steps that are not in the cache."""
        return history_writer(self._dialect)

    def write(self, steps: Sequence[HistoryStep]) -> list[TextTurn]:
        """Return the turns of all steps."""
        first_with_reasoning = 0 if self._profile.reasoning == "all" else len(steps)
        if self._profile.reasoning == "current":
            last_user_step = max([at for at, step in enumerate(steps) if step.has_user_message], default=-1)
            first_with_reasoning = last_user_step + 1
        turns: list[TextTurn] = []
        for at, step in enumerate(steps):
            calls, later_description = step.calls, self._later_descriptions.get(at, "")
            written = self._cached_step(step, calls, at >= first_with_reasoning, later_description)
            if calls:
                self._matcher.record(calls)
            self._since_format += written.size
            turns += written.turns
            if self._reminder_interval and self._since_format >= self._reminder_interval and step.input_messages:
                # Later requests repeat the reminder, so that their prompts start alike.
                self._since_format = 0
                reminder = (TextPart(render_reminder(self._dialect)),)
                turns[-1] = UserMessage(join_contents([turns[-1].content, reminder], "\n\n"))
        return turns

    def _cached_step(
        self,
        step: HistoryStep,
        calls: Sequence[ToolCall],
        with_reasoning: bool,  # noqa: FBT001
        later_description: str,
    ) -> WrittenStep:
        """Return a step's turns, from the cache unless they depend on the steps before it."""
        attempts = self._arguments.repair_attempts  # what is repaired depends on the calls before

        if not step.is_self_contained(calls):
            return self._write_step(step, calls, self._escape, with_reasoning, later_description)
        texts = _texts_of(step)

        def write() -> WrittenStep:
            # One search shows of most steps that none of their texts has a marker.
            is_plain = sum(map(len, texts)) <= _MAX_JOINED and self._escape.has_nothing_to_escape(texts)
            return self._write_step(step, calls, str if is_plain else self._escape, with_reasoning, later_description)

        return self._escape.cached(
            ("step", self._style, with_reasoning, later_description, *texts),
            write,
            lambda written: [text_of(turn.content) for turn in written.turns],
            keep=lambda: attempts == self._arguments.repair_attempts,
        )

    def _write_step(
        self,
        step: HistoryStep,
        calls: Sequence[ToolCall],
        escape: Escape,
        with_reasoning: bool,  # noqa: FBT001
        later_description: str,
    ) -> WrittenStep:
        turns: list[TextTurn] = [
            self._assistant_turn(message, escape, with_reasoning) for message in step.assistant_messages
        ]
        if step.input_messages:
            turns += self._input_turns(step, calls, escape, later_description)
        return WrittenStep(tuple(turns), sum([len(text_of(turn.content)) for turn in turns]))

    def _input_turns(
        self, step: HistoryStep, calls: Sequence[ToolCall], escape: Escape, later_description: str
    ) -> list[TextTurn]:
        """Return the results first, since a model expects them directly after its calls, then the other messages."""
        results = self._matcher.match(calls, step.results)
        turns: list[TextTurn] = [self._result_turn(results, escape)] if results else []
        if later_description:
            turns.append(UserMessage(as_system_note((TextPart(later_description),))))
        for message in step.input_messages:
            if isinstance(message, SystemMessage):
                turns.append(UserMessage(as_system_note(self._content(message.content, escape))))
            elif isinstance(message, UserMessage):
                turns.append(UserMessage(self._content(message.content, escape)))
        return turns

    def _content(self, content: Content, escape: Escape) -> Content:
        return escape_content(content, escape, media=self._profile.media)

    def _assistant_turn(
        self,
        message: AssistantMessage,
        escape: Escape,
        with_reasoning: bool,  # noqa: FBT001
    ) -> AssistantMessage:
        content = self._content(message.content, escape)
        if message.tool_calls:
            written: list[tuple[str, str]] = []
            for call in message.tool_calls:
                arguments = self._arguments.write(call.arguments)
                # Repaired arguments have not been searched for markers yet.
                escape_arguments = escape if arguments is call.arguments else self._escape
                written.append((escape(call.name), escape_arguments(arguments)))
            calls = (TextPart(self._history.write_calls(written)),)
            # Text before a call often ends with a newline: then the prompt repeats exactly what the model wrote.
            content = join_contents([content, calls], "" if text_of(content).endswith("\n") else "\n")
        reasoning = escape(message.reasoning) if with_reasoning else ""
        if reasoning and (tag := self._profile.reasoning_tag):
            tagged = TextPart(f"{tag}\n{reasoning.strip()}\n{tag.replace('<', '</', 1)}")
            return AssistantMessage(join_contents([(tagged,), content], "\n\n"))
        return AssistantMessage(content, reasoning=reasoning)

    def _result_turn(self, results: Sequence[MatchedResult], escape: Escape) -> UserMessage:
        texts: list[str] = []
        for result in results:
            content = text_of(escape_content(result.content, escape, media=False))
            written = self._history.write_result(escape(result.name), content, is_error=result.is_error)
            texts.append(f"{result.note}\n{written}" if result.note else written)
        text = "\n".join(filter(None, texts))
        if self._after_results:
            text = f"{text}\n\n{self._after_results}"
        media = [part for result in results for part in result.content if isinstance(part, MediaPart)]
        return UserMessage((*((TextPart(text),) if text else ()), *(media if self._profile.media else ())))


def as_system_note(content: Content) -> Content:
    """Mark text in a user turn that is not from the user."""
    return join_contents([(TextPart("<system_note>"),), content, (TextPart("</system_note>"),)], "\n")


OPENING = "(The assistant opens the conversation.)"
"""The user turn before a conversation that starts with the assistant, for chat templates that require the user
first."""


def write_history(
    system: Sequence[Message],
    steps: Sequence[HistoryStep],
    escape: Escaper,
    *,
    dialect: Dialect,
    profile: Profile,
    preamble: str = "",
    later_descriptions: Mapping[int, str] | None = None,
    after_results: str = "",
) -> tuple[Message, ...]:
    """Write a conversation without tool messages and calls; `preamble`, the prompt of the tools, follows `system`.

    `later_descriptions` are tool descriptions that come after a step, by the step's number; `after_results` is a line
    that follows the results of each step.
    Never raises, whatever ids, arguments or order the client's history has.
    """
    instructions = [cached_content(message.content, escape) for message in system]
    system_text = join_contents([*instructions, (TextPart(preamble),)], "\n\n")
    writer = TurnWriter(
        escape,
        dialect,
        profile,
        has_tools=bool(preamble),
        later_descriptions=later_descriptions,
        after_results=after_results,
    )
    turns = writer.write(steps)
    if profile.alternate:
        turns = [_merged(list(group)) for _, group in itertools.groupby(turns, key=type)]
    if not system_text:
        return _with_user_first(turns, profile)
    if profile.system_role:
        return (SystemMessage(system_text), *_with_user_first(turns, profile))
    if turns and isinstance(turns[0], UserMessage):
        return (UserMessage(join_contents([system_text, turns[0].content], "\n\n")), *turns[1:])
    return (UserMessage(system_text), *turns)


def _with_user_first(turns: list[TextTurn], profile: Profile) -> tuple[Message, ...]:
    if profile.alternate and turns and isinstance(turns[0], AssistantMessage):
        return (UserMessage((TextPart(OPENING),)), *turns)
    return tuple(turns)


def _merged(turns: Sequence[TextTurn]) -> TextTurn:
    first = turns[0]
    if len(turns) == 1:
        return first
    content = join_contents([turn.content for turn in turns], "\n\n")
    if isinstance(first, UserMessage):
        return UserMessage(content)
    reasoning = [turn.reasoning for turn in turns if isinstance(turn, AssistantMessage) and turn.reasoning]
    return AssistantMessage(content, reasoning="\n\n".join(reasoning))
