"""What was measured for models: one small JSON file per model in the user's state folder, by `ModelIdentity.key`.

Rule: a file that cannot be read, or is something else, is ignored with a line in the log. Files are replaced whole.
"""

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from fcshim.files import read_limited

logger = logging.getLogger("fcshim.upstream")

ProbeResult = Literal["written", "other", "unclear"]
"""What a model wrote when it was shown a dialect: its start marker, a call in another form, or something else."""
_KEY = re.compile(r"[0-9a-f]{16,128}")
_MAX_FILE = 2**16
"""Bytes of a file that are read; what fcshim writes takes some hundred."""


class MeasuredModel(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured for one model.

    `model` is its name and `reason` one phrase, both for people. `settings` are per-model settings (names of
    `ModelSettings`) that were found to be best. `date` is in ISO form. `complete`: false for a measurement that was
    interrupted, or that only tried a dialect. `probes`: what became of dialects that were tried, by name.
    """

    model: str
    settings: dict[str, str | bool | int]
    reason: str
    date: str
    complete: bool
    probes: dict[str, ProbeResult] = {}


def load_measured(key: str) -> MeasuredModel | None:
    """Return what was measured for the model with this key; None if nothing was."""
    file = _file_of(key, os.environ)
    try:
        return msgspec.json.decode(read_limited(file, _MAX_FILE), type=MeasuredModel)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("%s: the measurements of a model are ignored: %s", file, error.strerror)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        logger.warning("%s: not a file of measurements, ignored: %s", file, error)
    return None


def save_measured(key: str, measured: MeasuredModel) -> None:
    """Keep what was measured for the model with this key. If that fails, a line in the log says so."""
    file = _file_of(key, os.environ)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(file, msgspec.json.format(msgspec.json.encode(measured), indent=1))
    except OSError as error:
        logger.warning("%s: the measurements of a model are not saved: %s", file, error.strerror)


def _replace_file(file: Path, data: bytes) -> None:
    """Write a file whole or not at all, whoever else writes it at the same time. Raises `OSError`."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem[:16]}-")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
        Path(name).replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def default_measured_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the files: below `XDG_STATE_HOME`, else below `~/.local/state`."""
    state = env.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fcshim" / "models"


def _file_of(key: str, env: Mapping[str, str]) -> Path:
    if not _KEY.fullmatch(key):
        raise ValueError(f"expected the hexadecimal key of a model, got {key!r:.80}")
    return default_measured_folder(env) / f"{key}.json"
