"""Saved conversations, one JSON file each.

Rule: a file is replaced as a whole, and readable by its owner only; it holds messages, never a key. The content of a
file is not trusted: its id never leads out of the folder, and its address is confirmed before it is used.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config import ToolsPolicy
from fcshim.errors import ConfigError
from fcshim.files import read_limited
from fcshim.messages import Message
from fcshim.prompt.dialect_folder import is_dialect_folder

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_PRIVATE_FOLDER = 0o700
_SIZE_LIMIT = 256 * 2**20
"""Bytes of a session: some hundred pictures."""


class SessionOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of the command line that a session has again when it is resumed; None for the default.

    Options that widen permissions (`--mode`, `--allow`) are not among them.
    """

    api: UpstreamApi | None = None
    tools: ToolsPolicy | None = None
    dialect: str | None = None
    root: str | None = None
    mcp: str | None = None
    custom: str | None = None
    skills: str | None = None
    commands: str | None = None
    profiles: str | None = None
    agents: bool = False

    @property
    def paths(self) -> dict[str, str]:
        """The options that are files and folders, by name: they decide what is read, changed and started."""
        given = {name: getattr(self, name) or "" for name in _PATH_OPTIONS}
        if self.dialect and is_dialect_folder(self.dialect):
            given["dialect"] = self.dialect
        return {name: path for name, path in given.items() if path}


_PATH_OPTIONS = ("root", "mcp", "custom", "skills", "commands", "profiles")


class ChatSession(msgspec.Struct):
    """A conversation. `url` None: with the embedded model; `model` empty: the endpoint's own choice.

    Raises `ValueError` for an invalid id, because the id becomes a file name.
    """

    id: str
    url: str | None = None
    model: str = ""
    messages: tuple[Message, ...] = ()
    options: SessionOptions = SessionOptions()

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"{self.id[:80]!r} is not the id of a session")


class SessionStore:
    """The sessions of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, session: ChatSession) -> Path:
        """Return the path of a session's file."""
        return self._folder / f"{session.id}.json"

    def list_ids(self) -> list[str]:
        """Return the ids of all sessions, the one used last at the end."""
        files = sorted(self._folder.glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        return [file.stem for file in files]

    def save(self, session: ChatSession, file: Path | None = None) -> Path:
        """Write a session, to `file` if there is one, else to the folder; return the path. Raises `OSError`."""
        target = file or self.path(session)
        if file is None:
            make_private_folder(self._folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, new = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")  # for the owner only
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.encode(session))
            Path(new).replace(target)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise
        return target

    def load(self, name: str = "") -> ChatSession:
        """Read a session by its id or its file's path; without a name, the last one. Raises `ConfigError`."""
        names = self.list_ids()
        if not name and not names:
            raise ConfigError("there is no session to resume; fcshim chat starts one")
        if name and not name.endswith(".json") and not _ID.fullmatch(name):
            raise ConfigError(f"{name[:80]!r} is not the id of a session; expected one, or a file that ends in .json")
        file = Path(name) if name.endswith(".json") else self._folder / f"{name or names[-1]}.json"
        try:
            data = read_limited(file, _SIZE_LIMIT + 1)
            if len(data) > _SIZE_LIMIT:
                raise ConfigError(f"{file}: larger than {_SIZE_LIMIT} bytes; expected a file that /save wrote")
            return msgspec.json.decode(data, type=ChatSession)
        except FileNotFoundError as error:
            known = ", ".join(names[-5:]) or "none"
            raise ConfigError(f"there is no session {name!r} (the last ones are: {known})") from error
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{file}: not a session: {error}; expected a file that /save wrote") from error


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can open, or make an existing one so. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
    folder.chmod(_PRIVATE_FOLDER)


def make_private_file(file: Path) -> None:
    """Make an empty file that only its owner can read, or make an existing one so. Raises `OSError`."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    file.chmod(0o600)


def default_session_folder(env: Mapping[str, str]) -> Path:
    """Return the default folder of sessions."""
    state = env.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fcshim" / "sessions"
