"""Describes the failure of a server in one line, for people and for models.

Rule: the root cause is named; what a program wrote before it died is part of the message.
"""

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from pydantic import ValidationError

_GENERIC_MESSAGES = frozenset({"Connection closed", "Not Found", "Server returned an error response"})
"""Messages of the SDK that have no cause; the diagnostics have it."""
_LIMIT = 600
"""Characters: enough for the last lines of a traceback."""


def describe_error(error: BaseException, diagnostics: str = "") -> str:
    """Describe an error; `diagnostics` is the exit code and standard error of the server's program."""
    cause = root_cause(error)
    match cause:
        case FileNotFoundError(filename=filename) if filename:
            problem = f"{filename!r} was not found"
        case PermissionError(filename=filename) if filename:
            problem = f"no permission to run {filename}"
        case httpx2.HTTPStatusError(response=response) if response.status_code == 401:
            problem = "it answered 401: it needs a login (fcshim tools login) or a key in its headers"
        case httpx2.HTTPStatusError():
            problem = f"it answered {cause.response.status_code}"
        case OAuthFlowError():
            problem = f"it needs a login ({cause}); run: fcshim tools login"
        case MCPError():
            problem = "" if diagnostics and cause.message in _GENERIC_MESSAGES else cause.message
        case ValidationError():
            first, *_ = cause.errors()
            problem = f"its answer is not valid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        case TimeoutError():
            problem = "it timed out"
        case _:
            problem = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return "; ".join(filter(None, (_one_line(problem), _one_line(diagnostics))))


def _one_line(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LIMIT else f"{line[: _LIMIT - 1]}…"


def root_cause(error: BaseException) -> BaseException:
    """Return the first error that is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
