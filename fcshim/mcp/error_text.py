"""Describes the failure of a server in one line, for people and for models.

Rule: the root cause is named; what a program wrote before it died is part of the message.
"""

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from pydantic import ValidationError

_LIMIT = 600
"""Characters: enough for the last lines of a traceback."""


def describe_error(error: BaseException, diagnostics: str = "") -> str:
    """Describe an error; `diagnostics` is what the server's program left."""
    cause = root_cause(error)
    match cause:
        case FileNotFoundError(filename=filename) if filename:
            what = f"there is no {filename}"
        case PermissionError(filename=filename) if filename:
            what = f"no permission to run {filename}"
        case httpx2.HTTPStatusError():
            what = f"the server answered {cause.response.status_code}"
        case OAuthFlowError():
            what = f"it needs a login ({cause}); run: fcshim tools login"
        case MCPError():
            what = cause.message
        case ValidationError():
            first, *_ = cause.errors()
            what = f"its answer is not valid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        case TimeoutError():
            what = "it timed out"
        case _:
            what = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return "; ".join(filter(None, (what[:_LIMIT], diagnostics[-_LIMIT:])))


def root_cause(error: BaseException) -> BaseException:
    """Return the first error that is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
