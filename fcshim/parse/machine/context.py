"""What around a call says that it is none: role markers, quotation, code, reasoning.

Rule: an echo is told by its surroundings, never by being equal to something that was said before.
Neighbours: `stream` consults this table and this line memory at each marker.
"""

import re

from fcshim.errors import ConfigError

ROLE_MARKERS = (
    # Chat templates' own turn markers: a model that writes one goes on inventing the conversation.
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
    # The same in plain text, as models trained on transcripts write it.
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
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
)

QUOTE_PAIRS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "「": "」"}

_HEAD_SIZE = 16
"""Characters of the current line that are remembered: enough to see indentation, a quotation mark, or neither."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


def reasoning_end_tag(start_tag: str) -> str:
    """Give the tag that closes a reasoning block. Raises `ConfigError` naming the known ones."""
    for opener, closer in REASONING_TAGS:
        if opener.strip() == start_tag.strip():
            return closer
    known = ", ".join(opener.strip() for opener, _ in REASONING_TAGS)
    raise ConfigError(f"unknown reasoning tag {start_tag!r}: expected one of {known}")


class LineContext:
    """Remembers what the text so far means for the next marker: the line's head, the last character, code spans."""

    def __init__(self) -> None:
        self.head = ""
        self.last_char = ""
        self.open_backticks: list[int] = []
        """Lengths of backtick runs of this paragraph that nothing has closed yet."""

    def add(self, text: str) -> None:
        """Go on by a piece of text."""
        if self.open_backticks and _BLANK_LINE.search(text if self.head.strip() else f"\n{self.head}{text}"):
            self.open_backticks.clear()
        newline = text.rfind("\n")
        if newline >= 0:
            self.head = text[newline + 1 : newline + 1 + _HEAD_SIZE]
        elif len(self.head) < _HEAD_SIZE:
            self.head += text[:_HEAD_SIZE]
        self.last_char = text[-1]

    def add_backticks(self, length: int) -> None:
        """Note a run of backticks: it closes the span that an equal one opened, or may open one."""
        if length in self.open_backticks:
            del self.open_backticks[self.open_backticks.index(length) :]
        else:
            self.open_backticks.append(length)

    def at_line_start(self) -> bool:
        """Say whether only white space stands before this place in its line."""
        return len(self.head) < _HEAD_SIZE and not self.head.strip()

    def is_block_quote(self) -> bool:
        """Say whether the line is a Markdown quotation."""
        return self.head.lstrip().startswith(">")

    def reset_after_call(self) -> None:
        """Start anew behind a call."""
        self.head, self.last_char = ".", "."
        self.open_backticks.clear()
