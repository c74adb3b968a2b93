"""What upstreams say when something is wrong, read from whatever form it has.

Rule: the client is never told that its own key is wrong when the upstream refused ours; a prompt that is too long is
always `context_length_exceeded`, whatever the engine calls it; nothing of a refused key's message is repeated.
Neighbours: decoders use `problem_in` for errors inside a reply, codecs the rest; each API writes its own errors.
"""

import json
import re
from collections.abc import Mapping

import msgspec

from fcshim.errors import UpstreamError
from fcshim.events import JSON

CONTEXT_LENGTH = "context_length_exceeded"

_FORWARDED_STATUSES = {400, 404, 408, 413, 429, 503, 504}
_EXCERPT_CHARS = 300
_TITLE = re.compile(rb"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"exceed_context_size|context_length_exceeded|maximum context length|context (?:window|size|length)"
    r"|exceeds the available context|longer than the (?:maximum )?model",
    re.IGNORECASE,
)


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:  # noqa: ARG001  # contract
    """Read an upstream's error answer: JSON of some form, plain text, HTML or nothing."""
    if status in (401, 403):
        return UpstreamError(f"the upstream refused the proxy's credentials (HTTP {status})", status=502)
    found = find_error_message(_parse_json(body)) or excerpt(body)
    too_long = status < 500 and _TOO_LONG.search(found)
    message = f"the upstream answered HTTP {status}: {found}" if found else f"the upstream answered HTTP {status}"
    return UpstreamError(message, status=client_status(status), kind=CONTEXT_LENGTH if too_long else None)


def client_status(status: int) -> int:
    """Give the status that the client sees: the upstream's where it concerns the client, else 502."""
    if status == 422:
        return 400
    return status if status in _FORWARDED_STATUSES else 502


def error_kind(message: str) -> str:
    """Give the kind for an error with this message."""
    return CONTEXT_LENGTH if _TOO_LONG.search(message) else UpstreamError.kind


def find_error_message(value: JSON) -> str:
    """Find the error message in a JSON document of an upstream; empty where it holds none.

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
    words = [word for word in (error.get("code"), error.get("type")) if isinstance(word, str) and word not in text]
    return (text[:_EXCERPT_CHARS] + (f" ({', '.join(words)})" if words else "")) if text else ""


def excerpt(body: bytes) -> str:
    """Give the beginning of a body in one line; of a web page, its title."""
    if body.lstrip()[:1] == b"<":
        title = _TITLE.search(body[:4096])
        return f"a web page, {_one_line(title.group(1))!r}" if title else "a web page"
    return _one_line(body[: _EXCERPT_CHARS * 2])[:_EXCERPT_CHARS]


def _one_line(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").split())


def _parse_json(body: bytes) -> JSON:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
