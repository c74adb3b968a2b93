"""Markup that is left over after a call: end-of-text tokens, stray and repeated end markers, brackets, a fence's end.

Rule: it is dropped only directly after a call. Brackets count only alone on the rest of their line, a fence and an
ellipsis only at the end of the reply.
"""

import re

from fcshim.parse.dialects import DIALECTS
from fcshim.parse.markers import MarkerSet

END_TOKENS = (
    *("</s>", "<eos>", "<end_of_turn>", "<turn|>", "<_end>"),
    *("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|eos|>"),
    *("<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<|role_end|>"),
    *("<|message_sep|>", "<|endofassistant|>", "<|end_of_sentence|>", "<|END_OF_TURN_TOKEN|>"),
    *("<｜end▁of▁sentence｜>", "<｜hy_eos｜>", "[EOS]", "[EOT]", "[e~["),
)
"""Tokens with which a model ends its turn; a server that does not know them passes them as text."""
END_MARKERS = (
    *("[/TOOL_CALLS]", "[/TOOL_REQUEST]", "[END_TOOL_REQUEST]", "</tools>", "</tool>", "</tool_use>", "</function>"),
    *(marker for dialect in DIALECTS.values() for marker in dialect.closers() if marker[0] != "`"),
)
_MARKERS = MarkerSet((*END_TOKENS, *END_MARKERS))
_BRACKETS_IN_LINE = re.compile(r"[}\])]{1,8}[ \t\r]{0,8}(?=\n)")
_END_OF_REPLY = re.compile(r"\s{0,4}(?:[}\])]{1,8}|`{3,8}|\.{3}|…)\s{0,8}")
_PARTIAL_END_OF_REPLY = re.compile(r"(?:[}\])]{1,8}|`{1,8}|\.{1,3}|…)\s{0,8}")
_MAX_END_OF_REPLY = 24
"""More characters than these patterns match."""


def leftover_end(text: str, pos: int) -> int | None:
    """Return the end of the leftover markup at `pos`: `pos` if there is none, None if more text is needed to tell."""
    found = _MARKERS.match(text, pos)
    if _MARKERS.is_partial(text, pos):
        return None
    if found is not None:
        return found.end()
    if text[pos] in "}])`.…":
        return _end_of_brackets(text, pos)
    return pos


def _end_of_brackets(text: str, pos: int) -> int | None:
    found = _BRACKETS_IN_LINE.match(text, pos)
    if found is not None:
        return found.end()
    return None if _PARTIAL_END_OF_REPLY.fullmatch(text[pos : pos + _MAX_END_OF_REPLY]) else pos


def is_last_leftover(tail: str) -> bool:
    """Return whether the end of a reply, after a call, is leftover markup, with white space around it."""
    found = _MARKERS.match(tail, len(tail) - len(tail.lstrip()))
    return (found is not None and not tail[found.end() :].strip()) or _END_OF_REPLY.fullmatch(tail) is not None
