"""Measures a turn: tokens in and out, time, speed, and how much of the model's context is in use.

Rule: token counts come from the upstream only. Time spent on questions to the user is excluded. The speed is that of
the whole reply, from the request to its end: the text of a call may come in one piece.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fcshim.agent import RoundEnded
from fcshim.chat.conversation import ChatEvent
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.events import Stop, Usage, total_usage

_MIN_SECONDS = 0.1
"""Seconds of the model's work from which a speed is shown."""


class TurnFigures:
    """Counts one turn; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = self._round_began = clock()
        self._asked = 0.0  # seconds in which the user was asked
        self._asked_in_round = 0.0
        self._worked = 0.0  # seconds from requests to the ends of their replies
        self._usages: list[Usage] = []
        self._usage: Usage | None = None  # of this reply: an upstream may correct it until the reply's end

    def count(self, event: ChatEvent) -> None:
        """Count an event."""
        match event:
            case Usage():
                self._usage = event
            case Stop():
                self._worked += self._clock() - self._round_began - self._asked_in_round
            case RoundEnded():
                self._round_began, self._asked_in_round = self._clock(), 0.0
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
            seconds = self._clock() - began
            self._asked += seconds
            self._asked_in_round += seconds

    def waiting_line(self, progress: PromptProgress | None, prompt_tokens: int) -> str:
        """Return what is known while nothing of the reply has come: the server's progress, or time and size.

        `prompt_tokens` is an estimate; 0 if the prompt is not written yet.
        """
        if progress is not None and progress.processed < progress.total:
            return str(progress)
        seconds = f"{self._clock() - self._round_began:.0f} s"
        return f"{seconds}, about {prompt_tokens:,} tokens in the prompt" if prompt_tokens else seconds

    def line(self, context_length: int = 0) -> str:
        """Return the figures in one line.

        `1,204 tokens in, 86 out, 3.2 s, 27 tokens/s, 1,290 of 8,192 in the context`; `context_length` 0: not known.
        """
        seconds = f"{self._clock() - self._started - self._asked:.1f} s"
        usage = total_usage(self._usages)
        if usage is None or not usage.input_tokens + usage.output_tokens:
            return seconds
        figures = [f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out", seconds]
        if self._worked >= _MIN_SECONDS:
            figures.append(f"{usage.output_tokens / self._worked:.0f} tokens/s")
        last = self._usages[-1]
        used, limit = last.input_tokens + last.output_tokens, f" of {context_length:,}" if context_length else ""
        return ", ".join([*figures, f"{used:,}{limit} in the context"])
