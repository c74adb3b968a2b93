"""The documented errors, by who is at fault.

    FcshimError
    ├── ConfigError        the operator: a setting, a dialect or a template file
    │   └── MissingExtraError  a package of an extra is not installed
    ├── RequestError       the client: its request cannot be served as it is (4xx)
    ├── UpstreamError      the upstream endpoint (502, 504, or its own status)
    ├── ModelOutputError   the model: raised only if the caller asked for exceptions; else it is data in events
    ├── ToolError          a tool: becomes a result that the model reads
    └── StoreError         what the proxy remembers cannot be read or written now (503)

Rule: a message says what happened, what was expected, and shows a short excerpt, never a secret.
"""

__all__ = [
    "ConfigError",
    "FcshimError",
    "MissingExtraError",
    "ModelOutputError",
    "RequestError",
    "StoreError",
    "ToolError",
    "UpstreamError",
]


class FcshimError(Exception):
    """Base of every documented error; `status` is the HTTP status to answer with, `kind` a stable identifier."""

    status: int = 500
    kind: str = "internal_error"

    def __init__(self, message: str, *, status: int | None = None, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if status is not None:
            self.status = status
        if kind is not None:
            self.kind = kind


class ConfigError(FcshimError):
    """A setting, dialect or template of the operator is invalid."""

    kind = "config_error"


class MissingExtraError(ConfigError, ImportError):
    """A package of an extra is not installed; the message has the command that installs it."""


class RequestError(FcshimError):
    """The client's request cannot be served; `param` names the invalid field, if there is one."""

    status = 400
    kind = "invalid_request_error"

    def __init__(
        self, message: str, *, param: str | None = None, status: int | None = None, kind: str | None = None
    ) -> None:
        super().__init__(message, status=status, kind=kind)
        self.param = param


class UpstreamError(FcshimError):
    """The upstream failed; `status` is its own if it sent one, else 502 or 504.

    `lost`: it dropped the connection, so the reason is unknown. `key_refused`: it needs another API key, or one at all.
    """

    status = 502
    kind = "upstream_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        kind: str | None = None,
        lost: bool = False,
        key_refused: bool = False,
    ) -> None:
        super().__init__(message, status=status, kind=kind)
        self.lost = lost
        self.key_refused = key_refused


KEY_ADVICE = "set it with --upstream-key, FCSHIM_UPSTREAM_KEY or Client(api_key=...)"
"""The advice for the operator about `UpstreamError.key_refused`."""


class ModelOutputError(FcshimError):
    """The model did not do what was required of it, such as to call a tool or to stop calling.

    `raw` is what it wrote instead, if that says more.
    """

    status = 502
    kind = "model_output_error"

    def __init__(self, message: str, *, status: int | None = None, kind: str | None = None, raw: str = "") -> None:
        super().__init__(message, status=status, kind=kind)
        self.raw = raw


class ToolError(FcshimError):
    """A tool refused or failed; the message is written for the model."""

    kind = "tool_error"


class StoreError(FcshimError):
    """The store of what the proxy remembers does not answer; `retry_after` is in seconds."""

    status = 503
    kind = "unavailable"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def release_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that has been handled, and of those that led to it.

    Their frames hold whatever was worked on, such as a whole reply, in cycles (frame, error, traceback) that stay until
    a full garbage collection.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [each.__cause__, each.__context__]
