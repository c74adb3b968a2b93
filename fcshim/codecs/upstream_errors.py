"""Reading the error responses of upstreams, whatever their form.

Rule: an upstream that rejects the proxy's key gives a 502, because the client's own key is not at fault, and the
upstream's message, which may repeat the key, is dropped. A prompt that is too long is always
`context_length_exceeded`, whatever the engine calls it.
"""

import json
import re
from collections.abc import Mapping

import msgspec

from fcshim.errors import KEY_ADVICE, UpstreamError
from fcshim.events import JSON

CONTEXT_LENGTH = "context_length_exceeded"

_FORWARDED_STATUSES = {400, 404, 408, 413, 429, 503, 504}
_EXCERPT_CHARS = 300
EXCERPT_BYTES = 2 * _EXCERPT_CHARS
"""Bytes of a body, other than a web page, that `excerpt` reads."""
_TITLE = re.compile(rb"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"exceed_context_size|context_length_exceeded|maximum context length|context (?:window|size|length)"
    r"|exceeds the available context|longer than the (?:maximum )?model",
    re.IGNORECASE,
)

_HINTS = tuple(
    (re.compile(pattern, re.IGNORECASE), hint)
    for pattern, hint in (
        (r"--jinja\b", "llama-server needs --jinja, or fcshim --tools prompt"),
        (
            (
                r"not support (?:tools?|functions?)\b|--enable-auto-tool-choice|--tool-call-parser"
                r"|(?:tools?|functions?|tool use|tool calling|function calling) (?:is|are) not supported"
            ),
            "fcshim needs no such support with --tools prompt",
        ),
        (
            r"(?:pars(?:e|ing)|invalid|compil(?:e|ing)) (?:the )?(?:GBNF )?grammar|grammar.{0,20}(?:pars|invalid)",
            "fcshim avoids it with --constrain off",
        ),
        (
            (
                r"system role|roles? must alternate|must alternate between|only user.{0,20}assistant"
                r"|(?:unexpected|unknown|unsupported|invalid) (?:message )?roles?\b|roles? .{0,20}(?:supported|allowed)"
            ),
            "fcshim avoids it with --profile no-system",
        ),
    )
)
"""The flag that avoids an error, by the engine's own words for it.

`omissions` search the message, too, so no hint has words that refuse a part of a request.
"""


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:  # noqa: ARG001  # contract
    """Read an upstream's error response: JSON of some form, plain text, HTML or nothing."""
    if status in (401, 403):
        message = f"the upstream refused fcshim's API key (HTTP {status}): {KEY_ADVICE}"
        return UpstreamError(message, status=502, key_refused=True)
    found = find_error_message(decode_json(body)) or excerpt(body)
    too_long = status < 500 and _TOO_LONG.search(found)
    message = f"the upstream answered HTTP {status}: {found}" if found else f"the upstream answered HTTP {status}"
    message += "".join(f"; {hint}" for pattern, hint in _HINTS if pattern.search(found))
    return UpstreamError(message, status=client_status(status), kind=CONTEXT_LENGTH if too_long else None)


def client_status(status: int) -> int:
    """Return the status for the client: the upstream's own where the client can act on it, else 502."""
    if status == 422:  # FastAPI reports an invalid request as 422, OpenAI's API as 400
        return 400
    return status if status in _FORWARDED_STATUSES else 502


def error_kind(message: str) -> str:
    """Return the error kind for a message: `context_length_exceeded`, or the default of `UpstreamError`."""
    return CONTEXT_LENGTH if _TOO_LONG.search(message) else UpstreamError.kind


def find_error_message(value: JSON) -> str:
    """Return the error message in a JSON document of an upstream; empty where it has none.

    Forms: `{"error": {"message", "type", "code"}}` (OpenAI, llama-server, llama-cpp-python), `{"error": "text"}`
    (Ollama), `{"object": "error", "message"}` (vLLM, SGLang), `{"detail": ...}` (FastAPI).
    """
    if not isinstance(value, dict):
        return ""
    error = value.get("error")
    if isinstance(error, dict):
        return _format_error(error)
    if isinstance(error, str) and error:
        return error[:_EXCERPT_CHARS]
    if value.get("object") == "error" or "detail" in value:
        return _format_error({"message": value.get("detail"), **value})
    return _format_error(value) if error else ""


def _format_error(error: dict[str, JSON]) -> str:
    message = error.get("message") or error.get("detail") or error
    text = message if isinstance(message, str) else json.dumps(message)
    labels = [label for label in (error.get("code"), error.get("type")) if isinstance(label, str) and label not in text]
    return (text[:_EXCERPT_CHARS] + (f" ({', '.join(labels)})" if labels else "")) if text else ""


def excerpt(body: bytes) -> str:
    """Return the beginning of a body on one line, or the title of a web page."""
    if body.lstrip()[:1] == b"<":
        title = _TITLE.search(body[:4096])
        return f"a web page, {_one_line(title.group(1))!r}" if title else "a web page"
    return _one_line(body[:EXCERPT_BYTES])[:_EXCERPT_CHARS]


def _one_line(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").split())


def decode_json(body: bytes) -> JSON:
    """Return the document in a body; None where it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
