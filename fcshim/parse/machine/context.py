"""The context that shows that a call is quoted or invented: role markers, quotation, code, reasoning.

Rule: an echoed call is recognised by its context, never because it equals an earlier call.
"""

import re
from collections.abc import Iterable

from fcshim.errors import ConfigError

ROLE_MARKERS = (
    # Turn markers of chat templates: a model that writes one continues by inventing further turns.
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<|turn>",
    "<|start|>",
    "[INST]",
    "<|user|>",
    "<|assistant|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    # Plain-text turn markers, as models trained on transcripts write them.
    "\nUser:",
    "\nHuman:",
    "\nAssistant:",
)

REASONING_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("to=self<|message|>", "<|eom|>"),
    ("<|message_model|><|content_thinking|>", "<|end_message|>"),
    ("<|content_thinking|>", "<|end_message|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("analysis<|message|>", "<|end|>"),  # the prompt ended with `<|channel|>`
)

QUOTE_PAIRS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "「": "」"}

BYTE_ORDER_MARK = "\ufeff"
"""Some runtimes put it at the start of a reply. It is text, and the line begins after it."""
_HEAD_SIZE = 16
"""Characters of the current line that are kept: enough to recognise indentation or a block quote's `>`."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


def reasoning_end_tag(start_tag: str, own_tags: Iterable[tuple[str, str]] = ()) -> str:
    """Return the end tag of a reasoning block, with the tags of a dialect first.

    Raises `ConfigError`, which lists the known start tags.
    """
    for known_tag, end_tag in (*own_tags, *REASONING_TAGS):
        if known_tag.strip() == start_tag.strip():
            return end_tag
    known = ", ".join(known_tag.strip() for known_tag, _ in REASONING_TAGS)
    raise ConfigError(f"unknown reasoning tag {start_tag!r}: expected one of {known}")


class LineContext:
    """The context of the next marker: the beginning of its line, the last character, and the open code spans."""

    __slots__ = ("head", "last_char", "open_backticks")

    def __init__(self) -> None:
        self.head = ""
        self.last_char = ""
        self.open_backticks: list[int] = []
        """Lengths of the backtick runs in this paragraph that are not closed."""

    def add(self, text: str) -> None:
        """Add a piece of text."""
        if not self.last_char and text[0] == BYTE_ORDER_MARK:
            text = text[1:]
            if not text:
                return
        # CommonMark: a code span does not extend past its paragraph.
        if self.open_backticks and _BLANK_LINE.search(text if self.head.strip() else f"\n{self.head}{text}"):
            self.open_backticks.clear()
        newline = text.rfind("\n")
        if newline >= 0:
            self.head = text[newline + 1 : newline + 1 + _HEAD_SIZE]
        elif len(self.head) < _HEAD_SIZE:
            self.head += text[:_HEAD_SIZE]
        self.last_char = text[-1]

    def add_backticks(self, length: int) -> None:
        """Add a run of backticks: it closes the span that a run of equal length opened, or may open a span."""
        if length in self.open_backticks:
            del self.open_backticks[self.open_backticks.index(length) :]
        else:
            self.open_backticks.append(length)

    def at_line_start(self) -> bool:
        """Return whether the current line has only white space so far."""
        return len(self.head) < _HEAD_SIZE and not self.head.strip()

    def is_block_quote(self) -> bool:
        """Return whether the current line is a Markdown block quote."""
        return self.head.lstrip().startswith(">")

    def reset(self) -> None:
        """Reset the context to that of the start of a text."""
        self.head = self.last_char = ""
        self.open_backticks.clear()

    def reset_after_call(self) -> None:
        """Reset the context after a call, to that of a position inside a line."""
        self.head = self.last_char = "."
        self.open_backticks.clear()
