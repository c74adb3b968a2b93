"""The JSON text that was read or written so far: sent, or buffered until it is certain.

Theory of operation. At a commit point the buffered text is known to be strict JSON, and moves to `target`. At a
deviation the buffer is rolled back: its source text is returned, to be searched for readings from the last
commit point on. The `handler` reacts to each value before its text reaches `target`, and may redirect `target`.

Rule: the size of the buffer is limited.
"""

from typing import Literal

from fcshim.parse.limits import Limits

CommitPoint = Literal["start", "opened", "after", "string"]
"""The last commit point: before the body, in a container just opened, after a value, in a string."""


class NotStrictError(Exception):
    """The text from `pos` on is not strict JSON."""

    def __init__(self, pos: int = 0) -> None:
        super().__init__()
        self.pos = pos


class LimitError(Exception):
    """The value is longer or more deeply nested than the limits allow."""


class ValueHandler:
    """Reacts to the parts of a JSON text; this base class accepts all of them."""

    def on_key(self, key: str) -> None:
        """React to the key of the next value."""

    def on_duplicate_key(self, _key: str) -> None:
        """React to a duplicate key. Raises `NotStrictError`, unless the handler records it."""
        raise NotStrictError

    def on_unexpected_key(self) -> None:
        """React to the value of a key that the handler marked as `unexpected_key`, before the key is sent."""

    def on_value(self, first: str) -> None:
        """React to the start of a string or container; `first` is its first character."""

    def on_atom(self, atom: str) -> str:
        """Return the JSON to send for a number or literal; an empty string drops it, together with its key."""
        return atom

    def on_string_end(self) -> None:
        """React to the end of a string value."""

    def on_container_end(self) -> None:
        """React to the end of a container, whose closing bracket is already in `target`."""


NO_HANDLER = ValueHandler()


class CommitBuffer:
    """Buffers JSON text until it is committed to `target`; None discards it."""

    def __init__(self, limits: Limits) -> None:
        self.handler = NO_HANDLER
        self.target: list[str] | None = None
        self.commit_point: CommitPoint = "start"
        self.containers: list[str] = []
        """The opening brackets of the open containers, outermost first."""
        self.keys: list[set[str]] = []
        """The keys of each open object."""
        self.closed_keys: set[str] = set()
        """The keys of the object that was closed last."""
        self.pending_key: str | None = None
        self.unexpected_key = False
        """True if the schema does not admit the pending key."""
        self.parts: list[str] = []
        """The buffered text."""
        self.source: list[str] | None = None
        """The source of the buffered text where it may differ from its JSON: from an end marker in a string on."""
        self.size = 0
        self.at_string_start = False
        """True right after the opening quote of a string."""
        self._in_string = False
        self._quote_at = 0
        self._limits = limits

    @property
    def paused(self) -> bool:
        """True from an end marker in a string on: the marker ended the body if the string never closes."""
        return self.source is not None

    def reset(self) -> None:
        """Drop everything and begin another text; handler and target stay."""
        self.roll_back()
        self.commit_point = "start"
        self.containers.clear()
        self.keys.clear()
        self.unexpected_key = self._in_string = False

    def add(self, text: str) -> None:
        """Buffer text between two commit points. Raises `LimitError`."""
        self.parts.append(text)
        if self.source is not None:
            self.source.append(text)
        size = self.size = self.size + len(text)
        if size > self._limits.search and not self.paused:
            raise LimitError(f"more than {self._limits.search} characters between two values")

    def commit(self, commit_point: CommitPoint) -> None:
        """Reach a commit point: send the buffered text."""
        if self._in_string:
            self._commit_string()
        if self.unexpected_key:
            self.handler.on_unexpected_key()
        if self.pending_key is not None:
            self.keys[-1].add(self.pending_key)
            self.pending_key = None
        parts = self.parts
        if parts:
            target = self.target
            if target is not None:
                target += parts
            parts.clear()
            self.source = None
            self.size = 0
        self.commit_point = commit_point

    def _commit_string(self) -> None:
        """Send the buffered end of a string, once its closing quote is confirmed; a commit point follows."""
        after_quote = self._quote_at + 1
        if self.target is not None:
            self.target += self.parts[:after_quote]
        del self.parts[:after_quote]
        self.source = None
        self.size = 0
        self._in_string = False
        self.handler.on_string_end()

    def _clear(self) -> None:
        self.parts.clear()
        self.source = None
        self.size = 0

    def roll_back(self) -> str:
        """Empty the buffer, back to the last commit point, and return its source text."""
        source = "".join(self.parts if self.source is None else self.source)
        self._clear()
        self.pending_key = None
        return source

    # Values.

    def open(self, container: str) -> None:
        """Open an object or array. Raises `LimitError`."""
        if len(self.containers) >= self._limits.depth:
            raise LimitError(f"nested more than {self._limits.depth} deep")
        self.commit("opened")
        self.handler.on_value(container)
        if self.target is not None:
            self.target.append(container)
        self.containers.append(container)
        if container == "{":
            self.keys.append(set())

    def close(self, bracket: str) -> None:
        """Close the innermost container."""
        self.commit("after")
        if self.target is not None:
            self.target.append(bracket)
        if self.containers.pop() == "{":
            self.closed_keys = self.keys.pop()
        self.handler.on_container_end()

    def add_key(self, key: str) -> None:
        """Take the key of the next value, whose text is buffered apart."""
        if key in self.keys[-1]:
            self.handler.on_duplicate_key(key)
        self.pending_key = key
        self.handler.on_key(key)

    def add_atom(self, atom: str) -> None:
        """Send a number or literal, with which the last part ends. Raises `LimitError`."""
        if len(atom) > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        if self._in_string:
            self._commit_string()
        text = self.handler.on_atom(atom)
        if not text:
            self._clear()
            self.commit("opened" if self.commit_point == "opened" else "after")
            return
        if text is not atom:
            self.parts[-1] = self.parts[-1].removesuffix(atom) + text
        self.commit("after")

    def begin_string(self) -> None:
        """Begin a string value."""
        self.commit("string")
        self._in_string = self.at_string_start = True
        self.handler.on_value('"')
        if self.target is not None:
            self.target.append('"')

    def add_content(self, source: str, strict: str | None = None) -> None:
        """Send a piece of a string; `strict` is its JSON spelling if that differs from its source."""
        if not source:
            return
        if strict is None:
            strict = source
        self.at_string_start = False
        if self.source is None:
            if self.target is not None:
                self.target.append(strict)
            return
        self.source.append(source)
        self.parts.append(strict)
        self.size += len(source)
        if self.size > self._limits.search:
            # The string did not close within the limit: the marker is content, for example of a file being written.
            self.resume()

    def resume(self) -> None:
        """Send the content of the string that was kept back: the end marker is content."""
        self._in_string = False
        self.commit("string")
        self._in_string = True

    def pause(self) -> None:
        """Keep the content of the string back from here on: an end marker follows."""
        if self.source is None:
            self.source = []

    def end_string(self) -> None:
        """End a string; its closing quote is certain."""
        if self.target is not None:
            self.target.append('"')
        self.commit_point = "after"
        self._in_string = False
        self.handler.on_string_end()

    def buffer_end_of_string(self) -> None:
        """Buffer the closing quote of a string, which counts only when the text after it is valid."""
        self._quote_at = len(self.parts)
        self.parts.append('"')
        if self.source is not None:
            self.source.append('"')
        self.size += 1
