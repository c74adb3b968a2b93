"""What goes wrong, split by who is at fault.

    FcshimError
    ├── ConfigError        the operator: a setting, a dialect or a template file
    ├── RequestError       the client: its request cannot be served as it is (4xx)
    ├── UpstreamError      the endpoint behind us (502, 504, or its own status)
    ├── ModelOutputError   the model: raised only where the caller asked for exceptions; else data on events
    └── ToolError          a tool: becomes a result that the model can read

Rule: a message says what happened, what was expected, and shows a short excerpt, never a secret.
"""


class FcshimError(Exception):
    """Base of every documented error; `status` is the HTTP status that fits, `kind` a stable word for programs."""

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
    """The operator's settings cannot work."""

    kind = "config_error"


class RequestError(FcshimError):
    """The client's request cannot be served; `param` names the offending field where there is one."""

    status = 400
    kind = "invalid_request_error"

    def __init__(
        self, message: str, *, param: str | None = None, status: int | None = None, kind: str | None = None
    ) -> None:
        super().__init__(message, status=status, kind=kind)
        self.param = param


class UpstreamError(FcshimError):
    """The endpoint behind us failed; `status` is its own where it gave one, else 502 or 504.

    `lost`: the connection was lost, so nothing tells why.
    """

    status = 502
    kind = "upstream_error"

    def __init__(self, message: str, *, status: int | None = None, kind: str | None = None, lost: bool = False) -> None:
        super().__init__(message, status=status, kind=kind)
        self.lost = lost


class ModelOutputError(FcshimError):
    """The model wrote something that is not a call although one was demanded."""

    status = 502
    kind = "model_output_error"


class ToolError(FcshimError):
    """A tool refused or failed; its message is meant for the model."""

    kind = "tool_error"
