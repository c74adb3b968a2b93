"""`--record`: one file of JSON lines per request, from which `fcshim replay` parses its replies again.

Rule: a record is masked before it is written, and holds nothing of a reply that repeats a credential of its request,
since a stream may hold it in pieces. Files are for the owner only; the folder's size is limited, and nothing in it is
ever deleted. A separate thread masks and writes; requests do not wait for it.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from fcshim.config import Config
from fcshim.config.credentials import CredentialMask
from fcshim.errors import ConfigError
from fcshim.events import JSON, Event, Reasoning, Text, ToolCallChunk
from fcshim.server.kept_replies import KEPT_BYTES, ChunkLog, KeptReplies
from fcshim.server.observation import Reads
from fcshim.server.observed_request import ObservedAttempt, ObservedRequest
from fcshim.server.reply_strings import reply_strings
from fcshim.server.request_log import config_secrets

logger = logging.getLogger("fcshim.server")

VERSION = 1
_MAX_WAITING = 64
"""Requests that wait to be written; beyond it a request is not recorded."""


class Recorder:
    """Writes a file for each request. Implements `observers.ServerObserver`. Raises `ConfigError`."""

    def __init__(self, config: Config, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._left = config.record_bytes - sum(file.stat().st_size for file in folder.glob("*.jsonl"))
        except OSError as error:
            raise ConfigError(f"--record: cannot use the folder {folder}: {error.strerror}") from error
        self._folder = folder
        self._secrets = config_secrets(config)
        self._upstream = {"upstream": config.upstream, "upstream_api": config.upstream_api}
        self._writer = ThreadPoolExecutor(1, "fcshim-record")
        self._slots = threading.BoundedSemaphore(_MAX_WAITING)

    def begin(self, observed: ObservedRequest) -> "Recording | None":
        """Record a request for a reply."""
        return Recording(observed, self.write_later) if observed.operation == "reply" else None

    def write_later(self, recording: "Recording") -> None:
        """Write a recording beside the requests, unless too many wait already."""
        if not self._slots.acquire(blocking=False):
            logger.warning("not recorded: too many requests wait to be written")
            return
        self._writer.submit(self._write, recording)

    def close(self) -> None:
        """Write what waits."""
        self._writer.shutdown()

    def _write(self, recording: "Recording") -> None:
        observed = recording.observed
        try:
            data = record_of(recording, self._upstream, CredentialMask(self._secrets))
            if len(data) > self._left:
                logger.warning("%s: not recorded: the folder has reached --record-bytes", observed.id)
                return
            self._left -= len(data)
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(observed.began_at))
            name = f"{stamp}-{re.sub(r'[^A-Za-z0-9-]', '_', observed.id)[:80]}-{os.urandom(3).hex()}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(self._folder / name, flags, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            logger.warning("%s: not recorded: %s", observed.id, error.strerror)
        finally:
            self._slots.release()


class Recording(KeptReplies):
    """The recording of one request: the replies to its attempts, or the one that was relayed."""

    def __init__(self, observed: ObservedRequest, write_later: Callable[["Recording"], None]) -> None:
        super().__init__(KEPT_BYTES)
        self.observed = observed
        self.relayed = ChunkLog(self.room.charge)
        self._write_later = write_later

    @property
    def cut(self) -> bool:
        """Whether a part of the replies was not kept."""
        return any(log.is_full for log in (*self.replies, self.relayed))

    def on_relayed(self, reads: Reads) -> None:
        """Record each read."""
        self.relayed.add(reads)

    def end(self, status: int, error: str) -> None:  # noqa: ARG002 - `observed` has both
        """Write the record."""
        if self.observed.request is not None:
            self._write_later(self)


def record_of(recording: Recording, upstream: dict[str, str], mask: CredentialMask) -> bytes:
    """Return the lines of a request's record: the request, each attempt, the end."""
    observed = recording.observed
    # The mask learns credentials from the request and its attempts before anything else is masked by it.
    request_line = _request_line(observed, upstream, mask)
    attempts = [
        (attempt, mask.body(attempt.body), log)
        for attempt, log in zip(observed.attempts, recording.replies, strict=False)
    ]
    withheld = _why_withheld(recording, mask)
    lines = [
        {**request_line, **({"body": ""} if withheld else {}), "withheld": withheld},
        *(_attempt_line(*attempt, withheld) for attempt in attempts),
        _end_line(recording, withheld),
    ]
    return b"".join(mask.mask(msgspec.json.encode(line)) + b"\n" for line in lines)


def _request_line(observed: ObservedRequest, upstream: dict[str, str], mask: CredentialMask) -> dict[str, JSON]:
    connection = observed.connection
    headers, query = mask.headers(connection.headers), mask.query(connection.query)
    return {
        "type": "request",
        "version": VERSION,
        "id": observed.id,
        "time": observed.began_at,
        "api": observed.api,
        "method": connection.method,
        "path": connection.path,
        "query": query,
        "headers": headers,
        "body": mask.mask(mask.body(observed.body)).decode("utf-8", "replace"),
        **upstream,
        **({"upstream": observed.upstream} if observed.upstream else {}),
        "settings": observed.model_config,
        "relayed": observed.is_relayed,
        "ran_tools": bool(observed.runs),
    }


def _end_line(recording: Recording, withheld: str) -> dict[str, JSON]:
    observed = recording.observed
    return {
        "type": "end",
        "status": observed.status,
        "error": observed.error,
        "seconds": observed.ended_at - observed.started_at,
        "cut": recording.cut,
        "reply": "" if withheld else recording.relayed.data.decode("utf-8", "replace"),
        "calls": [call._asdict() for call in observed.calls],
    }


def _attempt_line(attempt: ObservedAttempt, sent: bytes, log: ChunkLog, withheld: str) -> dict[str, JSON]:
    dialect = attempt.attempt.parse_record.dialect
    shown: dict[str, JSON] = {
        "body": sent.decode("utf-8", "replace"),
        "reply": log.data.decode("utf-8", "replace"),
        "reads": log.sizes(),
        "events": log.first_choice(),
    }
    return {
        "type": "attempt",
        "reason": attempt.reason,
        "error": attempt.error,
        "native": attempt.native,
        "backend": attempt.backend,
        "dialect": None if dialect is None else dialect.name,
        "defects": attempt.attempt.parse_record.defects,
        "path": attempt.path,
        **({} if withheld else shown),
    }


def _why_withheld(recording: Recording, mask: CredentialMask) -> str:
    """Return why nothing of the content is recorded; empty if it is."""
    if mask.overflowed:
        return "the request has too many different credentials, or values"
    if not mask.is_needed:
        return ""
    try:
        repeats = recording.observed.is_relayed or any(mask.mask_text(text) != text for text in _texts(recording))
    except RecursionError:
        return "the reply is nested too deep to be searched for credentials"
    return "the reply may repeat a credential of the request" if repeats else ""


def _texts(recording: Recording) -> Iterator[str]:
    """Yield what the replies say, without the borders of chunks. The events may have what the model wrote escaped."""
    for log in recording.replies:
        yield joined_text(log.first_choice())
        yield from reply_strings(log.data)


def joined_text(events: Iterable[Event]) -> str:
    """Return what the events say, without the borders between them."""
    parts = []
    for event in events:
        match event:
            case Text(text=text) | Reasoning(text=text) | ToolCallChunk(tool_call_arguments_chunk=text):
                parts.append(text)
    return "".join(parts)
