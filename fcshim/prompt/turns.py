"""The steps of a conversation as turns of text, for a model that knows only user and assistant.

Rule: what is written for a step depends on the steps up to it alone; the one exception is reasoning that is shown
while its turn lasts, where a profile says so.
Neighbours: `render` writes calls and results, `answers` finds results for calls, `history` puts the turns together.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    UserMessage,
    text_of,
)
from fcshim.parse.dialect import Dialect
from fcshim.prompt.content_parts import escape_content, join_contents
from fcshim.prompt.escape import Escaper
from fcshim.prompt.past_arguments import PastArguments
from fcshim.prompt.render import render_calls, render_reminder, render_result
from fcshim.prompt.result_matching import MatchedResult, ResultMatcher
from fcshim.prompt.steps import Step

TextTurn = UserMessage | AssistantMessage
ReasoningReplay = Literal["none", "current", "all"]
"""Which reasoning of earlier replies the model sees again: none, that since the user spoke last, or all."""


class PromptProfile(Protocol):
    """What the upstream takes and the model needs; a `Profile` says it."""

    @property
    def system_role(self) -> bool:
        """Whether a system message may come first."""
        ...

    @property
    def alternate(self) -> bool:
        """Whether user and assistant must take turns, the user first."""
        ...

    @property
    def media(self) -> bool:
        """Whether images and the like may be sent."""
        ...

    @property
    def reasoning(self) -> ReasoningReplay:
        """Which reasoning is shown again."""
        ...

    @property
    def reasoning_tag(self) -> str:
        """The tag in which it stands before the text; where it is empty, the API's own field has it."""
        ...

    @property
    def reminder(self) -> int:
        """Characters after which the model is told again how to call; 0 for never."""
        ...


class TurnWriter:
    """Writes the steps of one conversation, one after the other."""

    def __init__(
        self,
        escape: Escaper,
        dialect: Dialect,
        profile: PromptProfile,
        *,
        has_tools: bool = False,
        later_descriptions: Mapping[int, str] | None = None,
    ) -> None:
        self._escape = escape
        self._dialect = dialect
        self._profile = profile
        self._later_descriptions = later_descriptions or {}  # what is told of tools after a step, by the step's number
        self._reminder_interval = profile.reminder if has_tools else 0
        self._since_format = 0  # characters since the format was told
        self._matcher = ResultMatcher()
        self._arguments = PastArguments()

    def write(self, steps: Sequence[Step]) -> list[TextTurn]:
        """Give the turns of all steps."""
        asked = max((at for at, step in enumerate(steps) if step.has_user_message), default=-1)
        shown = {"none": len(steps), "current": asked + 1, "all": 0}[self._profile.reasoning]
        turns: list[TextTurn] = []
        for at, step in enumerate(steps):
            turns += self._assistant_turns(step, with_reasoning=at >= shown)
            turns += self._input_turns(step, self._later_descriptions.get(at, ""))
        return turns

    def _assistant_turns(self, step: Step, *, with_reasoning: bool) -> list[TextTurn]:
        turns = [self._assistant_turn(message, with_reasoning=with_reasoning) for message in step.assistant_messages]
        self._since_format += sum(len(text_of(turn.content)) for turn in turns)
        return [*turns]

    def _input_turns(self, step: Step, later_description: str) -> list[TextTurn]:
        """Give the results first, since a model expects them right behind its calls, then what else came."""
        if not step.input_messages:
            return []
        answers = self._matcher.match(step.calls, step.results)
        turns: list[TextTurn] = [self._result_turn(answers)] if answers else []
        if later_description:
            turns.append(UserMessage(as_system_note((TextPart(later_description),))))
        for message in step.input_messages:
            if isinstance(message, SystemMessage):
                turns.append(UserMessage(as_system_note(self._content(message.content))))
            elif isinstance(message, UserMessage):
                turns.append(UserMessage(self._content(message.content)))
        self._since_format += sum(len(text_of(turn.content)) for turn in turns)
        return self._with_reminder(turns)

    def _with_reminder(self, turns: list[TextTurn]) -> list[TextTurn]:
        """Tell the format again where it is far away. It stays there in later requests, so that they begin the same."""
        if not self._reminder_interval or self._since_format < self._reminder_interval:
            return turns
        self._since_format = 0
        reminder = (TextPart(render_reminder(self._dialect)),)
        return [*turns[:-1], UserMessage(join_contents([turns[-1].content, reminder], "\n\n"))]

    def _content(self, content: Content) -> Content:
        return escape_content(content, self._escape, media=self._profile.media)

    def _assistant_turn(self, message: AssistantMessage, *, with_reasoning: bool) -> AssistantMessage:
        text = self._content(message.content)
        calls = (TextPart(self._render_calls(message.tool_calls)),)
        # what the model wrote itself before a call often ends its line already: then its own bytes come back
        content = join_contents([text, calls], "" if text_of(text).endswith("\n") else "\n")
        reasoning = self._escape(message.reasoning) if with_reasoning else ""
        if reasoning and self._profile.reasoning_tag:
            return AssistantMessage(join_contents([(TextPart(self._tagged_reasoning(reasoning)),), content], "\n\n"))
        return AssistantMessage(content, reasoning=reasoning)

    def _tagged_reasoning(self, reasoning: str) -> str:
        tag = self._profile.reasoning_tag
        return f"{tag}\n{reasoning.strip()}\n{tag.replace('<', '</', 1)}"

    def _render_calls(self, calls: Sequence[ToolCall]) -> str:
        clean = self._escape
        written = [(clean(call.name), clean(self._arguments.write(call.arguments))) for call in calls]
        return render_calls(self._dialect, written)

    def _result_turn(self, results: Sequence[MatchedResult]) -> UserMessage:
        texts = [(TextPart(self._render_result(answer)),) for answer in results]
        media = [part for answer in results for part in answer.content if isinstance(part, MediaPart)]
        return UserMessage(join_contents(texts, "\n") + (tuple(media) if self._profile.media else ()))

    def _render_result(self, result: MatchedResult) -> str:
        text = text_of(escape_content(result.content, self._escape, media=False))
        written = render_result(self._dialect, self._escape(result.name), text, is_error=result.is_error)
        return f"{result.note}\n{written}" if result.note else written


def as_system_note(content: Content) -> Content:
    """Mark what is no user's word in a user's turn."""
    return join_contents([(TextPart("<system_note>"),), content, (TextPart("</system_note>"),)], "\n")
