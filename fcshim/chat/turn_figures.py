"""Measures a turn: tokens in and out, time, speed, and how much of the model's context is in use.

Rule: token counts come from the upstream only. Time spent on questions to the user is excluded.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fcshim.agent import RoundEnded
from fcshim.chat.conversation import ChatEvent
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.events import Reasoning, Stop, Text, ToolCallChunk, ToolCallStart, Usage, total_usage

_MIN_WRITING = 0.1
"""Seconds of writing from which a speed is shown: a reply in one piece has no measurable speed."""


class TurnFigures:
    """Counts one turn; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._asked = 0.0  # seconds in which the user was asked
        self._waits_since = self._started  # for the first part of a reply
        self._written = 0.0  # seconds in which the model wrote
        self._writes_since: float | None = None
        self._usages: list[Usage] = []
        self._usage: Usage | None = None  # of this reply: an upstream may correct it until the reply's end

    def count(self, event: ChatEvent) -> None:
        """Count an event."""
        match event:
            case Text() | Reasoning() | ToolCallStart() | ToolCallChunk():
                self._writes_since = self._clock() if self._writes_since is None else self._writes_since
            case Usage():
                self._usage = event
            case Stop() if self._writes_since is not None:
                self._written += self._clock() - self._writes_since
                self._writes_since = None
            case RoundEnded():
                self._waits_since = self._clock()
                if self._usage is not None:
                    self._usages.append(self._usage)
                    self._usage = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of this block."""
        began = self._clock()
        try:
            yield
        finally:
            self._asked += self._clock() - began

    def waiting_line(self, progress: PromptProgress | None, prompt_tokens: int) -> str:
        """Return what is known while nothing of the reply has come: the server's progress, or time and size.

        `prompt_tokens` is an estimate; 0 if the prompt is not written yet.
        """
        if progress is not None and progress.processed < progress.total:
            return str(progress)
        seconds = f"{self._clock() - self._waits_since:.0f} s"
        return f"{seconds}, about {prompt_tokens:,} tokens in the prompt" if prompt_tokens else seconds

    def line(self) -> str:
        """Return the figures in one line: `1,204 tokens in, 86 out, 3.2 s, 27 tokens/s, 1,290 in the context`."""
        seconds = f"{self._clock() - self._started - self._asked:.1f} s"
        usage = total_usage(self._usages)
        if usage is None or not usage.input_tokens + usage.output_tokens:
            return seconds
        figures = [f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out", seconds]
        if self._written >= _MIN_WRITING:
            figures.append(f"{usage.output_tokens / self._written:.0f} tokens/s")
        last = self._usages[-1]
        return ", ".join([*figures, f"{last.input_tokens + last.output_tokens:,} in the context"])
