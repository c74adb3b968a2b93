"""The prompt at which the user types: several lines, completion of commands and of files.

Rule: Enter sends. Alt+Enter, a backslash at the end of the line, and a paste make further lines; so does Enter between
three quotation marks and three more.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_QUOTES = '"""'
_BEGUN = re.compile(r'(?:^|[\s(])@(?:"([^"\n]*)|([^\s"]*))$')


class InputCompleter(Completer):
    """Completes `/command` and `@file`; `commands` may grow, `complete_path` returns the paths with a prefix."""

    def __init__(self, commands: Sequence[str], complete_path: Callable[[str], Sequence[str]]) -> None:
        self._commands = commands
        self._complete_path = complete_path

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002 - the base class's
        """Yield the completions of the text before the cursor."""
        before = document.text_before_cursor
        if before.startswith("/"):
            yield from (Completion(name, -len(before)) for name in self._commands if name.startswith(before))
        if (begun := _BEGUN.search(before)) is not None:
            quoted = begun[1] is not None
            start = begun[1] if quoted else begun[2]
            for path in self._complete_path(start):
                shown = f'"{path}"' if quoted or re.search(r"\s", path) else path
                yield Completion(shown, -len(start) - quoted, display=path)


def input_session(history: History, completer: Completer) -> PromptSession[str]:
    """Return the prompt."""
    return PromptSession(
        history=history,
        completer=completer,
        complete_while_typing=False,
        multiline=True,
        key_bindings=_key_bindings(),
        prompt_continuation=lambda width, _number, _wrapped: " " * width,
    )


def entered_text(text: str) -> str:
    """Return the entered text without blanks around it, and without the quotes around several lines."""
    text = text.strip()
    quoted = len(text) >= 2 * len(_QUOTES) and text.startswith(_QUOTES) and text.endswith(_QUOTES)
    return text[len(_QUOTES) : -len(_QUOTES)].strip("\n") if quoted else text


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        if not _continue_text(event.current_buffer):
            event.current_buffer.validate_and_handle()

    return bindings


def _continue_text(buffer: Buffer) -> bool:
    """Begin a new line if the text asks for one; return whether it does."""
    before = buffer.document.text_before_cursor
    if before.endswith("\\") and not buffer.document.text_after_cursor:
        buffer.delete_before_cursor()
    elif not (before.lstrip().startswith(_QUOTES) and buffer.text.count(_QUOTES) == 1):
        return False
    buffer.insert_text("\n")
    return True
