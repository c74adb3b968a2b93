"""Puts records (`serve --record`) into the ring of captures, so that the page shows them like captured requests.

Rule: a record has no times within a reply, and of the response only what was relayed; neither is made up.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from fcshim.codecs.base import UpstreamCodec
from fcshim.codecs.routes import CODECS
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.errors import ConfigError, FcshimError
from fcshim.events import Usage
from fcshim.server.inspector.capture import AttemptCapture, CapturedRequest, CaptureRing
from fcshim.server.kept_replies import ChunkLog
from fcshim.server.observation import Chunks, Reads
from fcshim.server.observed_request import ObservedCall
from fcshim.server.replay import Record, RecordedAttempt, read_record, request_of

logger = logging.getLogger("fcshim.server")

_MAX_FILES = 5_000
"""Records that are read, the newest of those that fit into the ring: as many as the list shows."""
_SUFFIX = ".jsonl"
_NOTHING = Chunks(b"", ())


def load_records(paths: Sequence[Path], ring: CaptureRing) -> int:
    """Put the records of files and folders into the ring, the newest of them that fit; return how many.

    Raises `ConfigError` for a path that cannot be read, for a file that is no record, and if there is no record at all.
    """
    kept, left_out = _newest(paths, ring.limit)
    count = 0
    for file in kept:
        try:
            record = read_record(file)
        except ConfigError as error:
            if file in paths:
                raise
            logger.warning("left out: %s", error.message)
            continue
        ring.keep(lambda ring, number, record=record: captured_of(record, ring, number))  # type: ignore[misc]
        count += 1
    if not count:
        raise ConfigError(
            f"{', '.join(map(str, paths))}: expected records (*{_SUFFIX}) as fcshim serve --record writes"
        )
    if left_out:
        logger.warning("%d older records are not shown; --inspect-bytes holds more", left_out)
    return count


def _newest(paths: Sequence[Path], limit: int) -> tuple[list[Path], int]:
    """Find the files, also those in the folders.

    Returns the newest of up to `limit` bytes together, the oldest first, and how many others there are.
    """
    files = [path for path in paths if not path.is_dir()]
    try:
        for folder in (path for path in paths if path.is_dir()):
            files += [file for file in folder.iterdir() if file.suffix == _SUFFIX and file.is_file()]
        known = sorted(
            {file: file.stat() for file in files}.items(), key=lambda each: each[1].st_mtime_ns, reverse=True
        )
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from error
    size = 0
    kept: list[Path] = []
    for file, status in known[:_MAX_FILES]:
        size += status.st_size
        if kept and size > limit:
            break
        kept.append(file)
    return kept[::-1], len(known) - len(kept)


def captured_of(record: Record, ring: CaptureRing, number: int) -> CapturedRequest:
    """Return a record as a captured request."""
    recorded, end = record.request, record.end
    codec = next((each for each in CODECS.values() if each.name == recorded.api), None)
    if codec is None:
        raise ConfigError(f"there is no API {recorded.api!r:.80}")
    captured = CapturedRequest(ring, number, codec)
    captured.is_timed = False
    captured.method, captured.path, captured.query = recorded.method, recorded.path, recorded.query
    captured.headers = recorded.headers
    captured.upstream = urlsplit(recorded.upstream).netloc.rpartition("@")[2] or recorded.upstream
    captured.time, captured.ended_at = recorded.time, max(end.seconds, 1e-6)
    captured.model_config = recorded.settings
    captured.status, captured.error = end.status, end.error
    captured.calls = [ObservedCall(each.name, each.dialect, each.outcome) for each in end.calls]
    captured.withheld = recorded.withheld
    body = recorded.body.encode()
    if not recorded.withheld and captured.room.charge(2 * len(body)):
        try:
            request = request_of(recorded)
            captured.model, captured.streamed = request.model, request.stream
            captured.keep_request(request, body, ring.conversations)
        except FcshimError as error:
            captured.withheld = f"its request cannot be decoded: {error.message}"
    upstream = UPSTREAMS[recorded.upstream_api].codec
    captured.attempts = [_attempt(each, captured, upstream) for each in record.attempts]
    events = (event for each in record.attempts for event in each.events)
    captured.usage = next((event for event in reversed(list(events)) if isinstance(event, Usage)), None)
    if end.reply:
        captured.sent.add_write(0.0, end.reply.encode())
    return captured


def _attempt(recorded: RecordedAttempt, captured: CapturedRequest, codec: UpstreamCodec) -> AttemptCapture:
    log = ChunkLog(captured.room.charge)
    attempt = AttemptCapture(recorded.reason, log, path=recorded.path, codec=codec, native=recorded.native)
    attempt.started_at, attempt.error = 0.0, recorded.error
    attempt.defects = tuple(recorded.defects)
    body, reply = recorded.body.encode(), recorded.reply.encode()
    attempt.body = body if captured.room.charge(len(body)) else b""
    sizes = tuple(recorded.reads)
    log.add(
        Reads((0.0,) * max(len(sizes), 1), Chunks(reply, sizes), ([(0, event) for event in recorded.events],), _NOTHING)
    )
    return attempt
