"""What the readers of one parameter's value have in common: the value's end, and errors that discard it."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.tagged.tag_reading import CompiledTags
from fcshim.parse.tagged.untyped import UntypedValue


class ValueReader(ABC):
    """Finds the end of one value, whether or not it is written."""

    def __init__(self, compiled: CompiledTags, *, is_written: bool) -> None:
        """Prepare a value that ends with a closing tag of `compiled`."""
        self.compiled = compiled
        self.closing_tag = compiled.tags.parameter_close
        """The tag that ends the value, which an element has for itself."""
        self.is_written = is_written
        """False where the value is discarded: it is read to its end."""
        self.ended = False
        self.error: LimitError | NotStrictError | None = None
        """Why the value is invalid."""

    @property
    @abstractmethod
    def content(self) -> UntypedValue | None:
        """What further text without a marker may be added to directly."""

    @abstractmethod
    def feed(self, text: str, pos: int) -> int:
        """Read up to a marker, over it or to the end of the text; return the position. Raises `MoreNeeded`."""

    def close(self, _tail: str) -> str | None:
        """End the value at the end of the reply: return the text after its call, or None if the value is not closed."""
        return None

    def attempt(self, write: Callable[..., None], *arguments: object) -> None:
        """Write, unless the value is discarded; an error discards it."""
        if self.is_written:
            try:
                write(*arguments)
            except (LimitError, NotStrictError) as error:
                self.fail(error)

    def fail(self, error: LimitError | NotStrictError) -> None:
        """Discard the value because of an error."""
        if self.is_written:
            self.error = error
            self.is_written = False
