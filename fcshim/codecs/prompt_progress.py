"""How far a server has read a prompt, as llama-server reports it in a stream before the reply."""

import msgspec

from fcshim.codecs.json_text import read_count
from fcshim.events import JSON

PROGRESS_FIELD = "return_progress"
"""The field of a request that asks llama-server for reports; other servers may refuse it."""


class PromptProgress(msgspec.Struct, frozen=True):
    """Tokens of a prompt: all, those from the server's cache, and those read so far, with the cached ones."""

    total: int
    cached: int
    processed: int
    seconds: float
    """The time that the server has read for."""

    @property
    def remaining(self) -> float | None:
        """The seconds that the rest will take at the speed so far; None before anything was read."""
        read = self.processed - self.cached
        return (self.total - self.processed) * self.seconds / read if read > 0 else None

    def __str__(self) -> str:
        """Return the figures: `4,096 of 12,000 tokens of the prompt read, 3 s, about 6 s left`."""
        figures = [f"{self.processed:,} of {self.total:,} tokens of the prompt read", f"{self.seconds:.0f} s"]
        if self.remaining is not None:
            figures.append(f"about {self.remaining:.0f} s left")
        return ", ".join(figures)


def read_progress(report: JSON) -> PromptProgress | None:
    """Read the report in a chunk; None where it has another shape."""
    if not isinstance(report, dict) or not read_count(report, "total"):
        return None
    total, cached = read_count(report, "total"), read_count(report, "cache")
    processed = min(max(read_count(report, "processed"), cached), total)
    seconds = report.get("time_ms")
    seconds = seconds / 1_000 if isinstance(seconds, int | float) and seconds > 0 else 0.0
    return PromptProgress(total, min(cached, total), processed, seconds)
