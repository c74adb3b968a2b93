"""Writes the steps of a conversation as text turns, for a model that knows only user and assistant.

Rule: the text of a step depends on the steps up to it only. The one exception is the profile setting that shows
reasoning only until the next user message.
"""

from collections.abc import Mapping, Sequence

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
from fcshim.prompt.profiles import Profile
from fcshim.prompt.render import render_calls, render_reminder, render_result
from fcshim.prompt.result_matching import MatchedResult, ResultMatcher
from fcshim.prompt.steps import Step

TextTurn = UserMessage | AssistantMessage


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
    ) -> None:
        self._escape = escape
        self._dialect = dialect
        self._profile = profile
        self._later_descriptions = later_descriptions or {}  # tool descriptions after a step, by the step's number
        self._reminder_interval = profile.reminder if has_tools else 0
        self._since_format = 0  # characters since the call format was last written
        self._matcher = ResultMatcher()
        self._arguments = PastArguments()

    def write(self, steps: Sequence[Step]) -> list[TextTurn]:
        """Return the turns of all steps."""
        last_user_step = max((at for at, step in enumerate(steps) if step.has_user_message), default=-1)
        first_with_reasoning = {"none": len(steps), "current": last_user_step + 1, "all": 0}[self._profile.reasoning]
        turns: list[TextTurn] = []
        for at, step in enumerate(steps):
            turns += self._assistant_turns(step, with_reasoning=at >= first_with_reasoning)
            turns += self._input_turns(step, self._later_descriptions.get(at, ""))
        return turns

    def _assistant_turns(self, step: Step, *, with_reasoning: bool) -> list[TextTurn]:
        turns = [self._assistant_turn(message, with_reasoning=with_reasoning) for message in step.assistant_messages]
        self._since_format += sum(len(text_of(turn.content)) for turn in turns)
        return [*turns]

    def _input_turns(self, step: Step, later_description: str) -> list[TextTurn]:
        """Return the results first, since a model expects them directly after its calls, then the other messages."""
        if not step.input_messages:
            return []
        results = self._matcher.match(step.calls, step.results)
        turns: list[TextTurn] = [self._result_turn(results)] if results else []
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
        """Append the call format if it is too far back. Later requests repeat it, so that their prompts start alike."""
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
        # Text before a call often ends with a newline already: then the prompt repeats exactly what the model wrote.
        content = join_contents([text, calls], "" if text_of(text).endswith("\n") else "\n")
        reasoning = self._escape(message.reasoning) if with_reasoning else ""
        if reasoning and self._profile.reasoning_tag:
            return AssistantMessage(join_contents([(TextPart(self._tagged_reasoning(reasoning)),), content], "\n\n"))
        return AssistantMessage(content, reasoning=reasoning)

    def _tagged_reasoning(self, reasoning: str) -> str:
        tag = self._profile.reasoning_tag
        return f"{tag}\n{reasoning.strip()}\n{tag.replace('<', '</', 1)}"

    def _render_calls(self, calls: Sequence[ToolCall]) -> str:
        escape = self._escape
        written = [(escape(call.name), escape(self._arguments.write(call.arguments))) for call in calls]
        return render_calls(self._dialect, written)

    def _result_turn(self, results: Sequence[MatchedResult]) -> UserMessage:
        texts = [(TextPart(self._render_result(result)),) for result in results]
        media = [part for result in results for part in result.content if isinstance(part, MediaPart)]
        return UserMessage(join_contents(texts, "\n") + (tuple(media) if self._profile.media else ()))

    def _render_result(self, result: MatchedResult) -> str:
        text = text_of(escape_content(result.content, self._escape, media=False))
        written = render_result(self._dialect, self._escape(result.name), text, is_error=result.is_error)
        return f"{result.note}\n{written}" if result.note else written


def as_system_note(content: Content) -> Content:
    """Mark text in a user turn that is not from the user."""
    return join_contents([(TextPart("<system_note>"),), content, (TextPart("</system_note>"),)], "\n")
