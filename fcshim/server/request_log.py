"""The id of a request, and the log lines that belong to it.

Rule: every line that is logged while a request is served carries its id, whichever module or library writes it, and no
credential of the request, also where an upstream quotes it. An id from a client is used only if it cannot be mistaken
for anything else in a log; its credentials are looked for only when there is a line to mask.
"""

import contextvars
import datetime as dt
import json
import logging
import re
import secrets
from collections.abc import Iterable

from fcshim.config import Config, Secret
from fcshim.config.credentials import CredentialMask
from fcshim.config.values import LogFormat
from fcshim.dispatch import run_off_loop
from fcshim.events import JSON
from fcshim.sanitize import SanitizingFormatter, configure_logging
from fcshim.server.client_connection import ClientConnection
from fcshim.server.guard import client_key

REQUEST_ID_HEADER = b"x-request-id"
_VALID_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
_LOGGERS = ("fcshim.server", "fcshim.dispatch", "fcshim.retry", "fcshim.upstream", "fcshim.tools.executor", "httpx")
"""The loggers of requests. Their records are masked also where another program has configured the handlers."""
_FORMATTER = logging.Formatter()
_WITHHELD = "(not shown: the request has too many values, or different credentials, to mask them)"


class LoggedRequest:
    """The served request, as the log knows it."""

    def __init__(self, connection: ClientConnection, known: Iterable[Secret] = ()) -> None:
        given = connection.header(REQUEST_ID_HEADER)
        self.id = given.decode() if _VALID_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        """The id that the client gave its request, or a new one."""
        self._connection: ClientConnection | None = connection
        self._known = known
        self._body = b""
        self._mask: CredentialMask | None = None

    def take_body(self, body: bytes) -> None:
        """Keep the body, whose credentials are masked too, until `close`."""
        self._body, self._mask = body, None

    async def shown(self, outcome: str) -> str:
        """Return how a request ended, as its last line may say it; a large one is searched beside the event loop."""
        mask = await run_off_loop(len(self._body), lambda: self.mask)
        return f", {_WITHHELD}" if mask.overflowed else outcome

    def close(self) -> None:
        """Forget the request: its tasks and timers, which hold this object, may live longer."""
        self._connection, self._body, self._mask = None, b"", None

    @property
    def mask(self) -> CredentialMask:
        """Masks the credentials of the request."""
        if self._mask is None:
            self._mask = self._make_mask()
        return self._mask

    def _make_mask(self) -> CredentialMask:
        mask, connection = CredentialMask(self._known), self._connection
        if connection is not None:
            key = client_key(connection.headers, connection.query).decode("latin-1")
            mask = CredentialMask([*self._known, Secret(key)] if key else self._known)
            mask.headers(connection.headers)
            mask.query(connection.query)
            mask.body(self._body)
        return mask


current_request: contextvars.ContextVar[LoggedRequest | None] = contextvars.ContextVar("request", default=None)
"""The request that this task serves."""


def config_secrets(config: Config) -> tuple[Secret, ...]:
    """Return the keys in the settings."""
    single = (config.upstream_key, config.web_search_key, config.store_key)
    sections = config.upstreams.values()
    several = [secret for each in sections for secret in (each.key, each.proxy, *each.headers.values())]
    return (*(secret for secret in (*single, *several) if secret is not None), *config.api_keys)


def take_logged_body(body: bytes) -> None:
    """Mask the credentials in the body of the current request, too."""
    request = current_request.get()
    if request is not None:
        request.take_body(body)


def mask_request_logs() -> None:
    """Mask all that is logged for requests; handlers may be those of another program."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_mask_record)


def configure_request_log(level: str, form: LogFormat) -> None:
    """Log to stderr from `level` on, with the ids of requests; `json` writes one object a line."""
    formatter = JsonFormatter() if form == "json" else RequestFormatter("%(levelname)-7s %(message)s")
    for handler in configure_logging(level, formatter):
        handler.addFilter(_mask_record)


class RequestFormatter(SanitizingFormatter):
    """Writes the id of the request at the end of a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        """Return the line of a record."""
        request_id = _id_of(record)
        return super().formatMessage(record) + (f" [{request_id}]" if request_id else "")


class JsonFormatter(SanitizingFormatter):
    """Writes each record as one line of JSON in ASCII, which no text can forge or leave."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        fields: dict[str, JSON] = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = _id_of(record)
        if request_id:
            fields["request_id"] = request_id
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["exception"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(fields)


def _id_of(record: logging.LogRecord) -> str:
    request = current_request.get()
    return str(getattr(record, "request_id", "")) or ("" if request is None else request.id)


def _mask_record(record: logging.LogRecord) -> bool:
    """Give a record the id of its request, and mask it. A line that quotes nothing (`plain`) needs no mask."""
    request = current_request.get()
    if request is None:
        return True
    record.request_id = request.id
    if not getattr(record, "plain", False) and not hasattr(record, "fields") and request.mask.overflowed:
        record.msg, record.args, record.exc_info = _WITHHELD, (), None
    elif not getattr(record, "plain", False):
        record.msg, record.args = request.mask.mask_text(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = request.mask.mask_text(_FORMATTER.formatException(record.exc_info))
    return True
