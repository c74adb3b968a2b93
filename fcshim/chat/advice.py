"""Adds to the message of a failed turn what the user can do about it, for each kind of failure.

Rule: a message says what happened, then what to do; advice goes only to users who can follow it.
"""

from typing import NamedTuple

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import KEY_ADVICE, FcshimError, RequestError, UpstreamError


class _Advice(NamedTuple):
    """The advice for a user at a terminal, and for a script."""

    chat: str
    script: str


_BY_KIND = {
    "invalid_call": _Advice(
        "Nothing of it ran. Ask in other words, or offer the tool (--mcp, --root); /raw shows what it wrote.",
        "Nothing of it ran. Ask in other words, or offer the tool (--mcp, --root); --json shows what it wrote.",
    ),
    "max_rounds": _Advice(
        "What it has done so far is kept: say `go on`, or allow more with --max-rounds.",
        "What it has done so far is kept: continue with --resume, or allow more with --max-rounds.",
    ),
    "truncated": _Advice(
        "Nothing of it ran. If the model's context is full, /compact makes room; /raw shows what it wrote.",
        "Nothing of it ran. If the model's context is full, ask less, or offer fewer tools.",
    ),
    CONTEXT_LENGTH: _Advice(
        "The conversation is too long for the model: /compact sums it up, /undo takes the last turn back.",
        "The conversation is too long for the model: ask less, or offer fewer tools.",
    ),
    "timeout": _Advice("The model may be loading or busy: ask again.", "The model may be loading or busy: try again."),
}
_TOO_MANY_TOOLS = _Advice(
    *["The tools fill the model's context: offer fewer (--mcp, --root), or start its server with a larger context."] * 2
)
_LOST = _Advice(
    "Is the model's server running? The key `up` brings your question back.", "Is the model's server running?"
)
_KEY = _Advice(*["Start again with the endpoint's key: --key, or FCSHIM_UPSTREAM_KEY."] * 2)
_CHAT_PHRASES = {
    "fcshim's API key": "the API key",
    "the upstream": "the endpoint",
    f": {KEY_ADVICE}": "",
    "Client(..., model=...)": "--model NAME",
}
"""Phrases in the messages of the proxy and the client, and what the user of a chat reads instead."""


def explain(error: FcshimError, *, script: bool = False, filled_by_tools: bool = False) -> str:
    """Return an error's message, and what to do if anything can be done.

    `filled_by_tools`: the tools take more of the context than the conversation.
    """
    advice, message = _find(error), error.message
    if filled_by_tools and error.kind in (CONTEXT_LENGTH, "truncated"):
        advice = _TOO_MANY_TOOLS
    for phrase, replacement in _CHAT_PHRASES.items():
        message = message.replace(phrase, replacement)
    if advice is None:
        return message
    return f"{message.rstrip('.')}. {advice.script if script else advice.chat}"


def _find(error: FcshimError) -> _Advice | None:
    if isinstance(error, RequestError):
        return None
    if isinstance(error, UpstreamError) and error.lost:
        return _LOST
    if isinstance(error, UpstreamError) and error.key_refused:
        return _KEY
    return _BY_KIND.get(error.kind)
