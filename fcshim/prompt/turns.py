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
from fcshim.prompt.answers import Answer, Answers
from fcshim.prompt.contents import cleaned, joined
from fcshim.prompt.neutralise import Neutraliser
from fcshim.prompt.past_arguments import PastArguments
from fcshim.prompt.render import render_calls, render_reminder, render_result
from fcshim.prompt.steps import Step

Turn = UserMessage | AssistantMessage
Replay = Literal["none", "current", "all"]
"""Which reasoning of earlier replies the model sees again: none, that since the user spoke last, or all."""


class Manners(Protocol):
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
    def reasoning(self) -> Replay:
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


class Turns:
    """Writes the steps of one conversation, one after the other."""

    def __init__(
        self,
        neutralise: Neutraliser,
        dialect: Dialect,
        manners: Manners,
        *,
        offered: bool = False,
        later: Mapping[int, str] | None = None,
    ) -> None:
        self._neutralise = neutralise
        self._dialect = dialect
        self._manners = manners
        self._later = later or {}  # what is told of tools after a step, by the step's number
        self._reminds = manners.reminder if offered else 0
        self._since = 0  # characters since the format was told
        self._answers = Answers()
        self._arguments = PastArguments()

    def write(self, steps: Sequence[Step]) -> list[Turn]:
        """Give the turns of all steps."""
        asked = max((at for at, step in enumerate(steps) if step.asks), default=-1)
        shown = {"none": len(steps), "current": asked + 1, "all": 0}[self._manners.reasoning]
        turns: list[Turn] = []
        for at, step in enumerate(steps):
            turns += self._said(step, thinking=at >= shown)
            turns += self._heard(step, self._later.get(at, ""))
        return turns

    def _said(self, step: Step, *, thinking: bool) -> list[Turn]:
        turns = [self._assistant(message, thinking=thinking) for message in step.said]
        self._since += sum(len(text_of(turn.content)) for turn in turns)
        return [*turns]

    def _heard(self, step: Step, later: str) -> list[Turn]:
        """Give the results first, since a model expects them right behind its calls, then what else came."""
        if not step.heard:
            return []
        answers = self._answers.of(step.calls, step.results)
        turns: list[Turn] = [self._results(answers)] if answers else []
        if later:
            turns.append(UserMessage(noted((TextPart(later),))))
        for message in step.heard:
            if isinstance(message, SystemMessage):
                turns.append(UserMessage(noted(self._content(message.content))))
            elif isinstance(message, UserMessage):
                turns.append(UserMessage(self._content(message.content)))
        self._since += sum(len(text_of(turn.content)) for turn in turns)
        return self._reminded(turns)

    def _reminded(self, turns: list[Turn]) -> list[Turn]:
        """Tell the format again where it is far away. It stays there in later requests, so that they begin the same."""
        if not self._reminds or self._since < self._reminds:
            return turns
        self._since = 0
        reminder = (TextPart(render_reminder(self._dialect)),)
        return [*turns[:-1], UserMessage(joined([turns[-1].content, reminder], "\n\n"))]

    def _content(self, content: Content) -> Content:
        return cleaned(content, self._neutralise, media=self._manners.media)

    def _assistant(self, message: AssistantMessage, *, thinking: bool) -> AssistantMessage:
        text = self._content(message.content)
        calls = (TextPart(self._calls(message.tool_calls)),)
        # what the model wrote itself before a call often ends its line already: then its own bytes come back
        content = joined([text, calls], "" if text_of(text).endswith("\n") else "\n")
        reasoning = self._neutralise(message.reasoning) if thinking else ""
        if reasoning and self._manners.reasoning_tag:
            return AssistantMessage(joined([(TextPart(self._thought(reasoning)),), content], "\n\n"))
        return AssistantMessage(content, reasoning=reasoning)

    def _thought(self, reasoning: str) -> str:
        tag = self._manners.reasoning_tag
        return f"{tag}\n{reasoning.strip()}\n{tag.replace('<', '</', 1)}"

    def _calls(self, calls: Sequence[ToolCall]) -> str:
        clean = self._neutralise
        written = [(clean(call.name), clean(self._arguments.write(call.arguments))) for call in calls]
        return render_calls(self._dialect, written)

    def _results(self, answers: Sequence[Answer]) -> UserMessage:
        texts = [(TextPart(self._result(answer)),) for answer in answers]
        media = [part for answer in answers for part in answer.content if isinstance(part, MediaPart)]
        return UserMessage(joined(texts, "\n") + (tuple(media) if self._manners.media else ()))

    def _result(self, answer: Answer) -> str:
        text = text_of(cleaned(answer.content, self._neutralise, media=False))
        written = render_result(self._dialect, self._neutralise(answer.name), text, is_error=answer.is_error)
        return f"{answer.remark}\n{written}" if answer.remark else written


def noted(content: Content) -> Content:
    """Mark what is no user's word in a user's turn."""
    return joined([(TextPart("<system_note>"),), content, (TextPart("</system_note>"),)], "\n")
