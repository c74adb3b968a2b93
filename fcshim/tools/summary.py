"""Has a model read a long text in pieces, and answer about all of it.

Rule: the answer to one piece is part of the next question. A piece that does not fit the model's context becomes
smaller, and none is skipped.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import ModelOutputError, UpstreamError

AskModel: TypeAlias = Callable[[str], Awaitable[str]]
"""Has the model answer one text, in a separate conversation without tools. Raises `FcshimError`."""

ANSWER_TOKENS = 1_024
"""Tokens of an answer to one piece."""
_PIECE = 24_000
"""Characters of the first piece: about 6,000 tokens."""
_SMALLEST_PIECE = 1_500
"""Characters below which a piece is not shortened: a context without room for it has none for an answer either."""


async def read_in_pieces(text: str, prompt: Callable[[str, str], str], ask: AskModel) -> str:
    """Return the model's answer after the last piece; `prompt` makes a question of the answer so far and a piece.

    Raises `ModelOutputError` for an empty answer, and what `ask` does, except for a context that a smaller piece fits.
    """
    answer, size = "", _PIECE
    while text:
        # A piece ends with a line, if one ends in its second half.
        piece = text if len(text) <= size else text[: text.rfind("\n", size // 2, size) + 1 or size]
        try:
            answer = (await ask(prompt(answer, piece))).strip()
        except UpstreamError as error:
            if error.kind != CONTEXT_LENGTH or size <= _SMALLEST_PIECE:
                raise
            size = max(min(size, len(piece)) // 2, _SMALLEST_PIECE)
            continue
        if not answer:
            raise ModelOutputError("the model wrote no summary")
        text = text[len(piece) :]
    return answer
