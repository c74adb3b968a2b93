"""Saved conversations, one JSON file each.

Rule: a file is replaced as a whole, and readable by its owner only; it holds messages, never a key.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fcshim.errors import ConfigError
from fcshim.messages import Message


class ChatSession(msgspec.Struct):
    """A conversation. `url` None: with the embedded model; `model` empty: the endpoint's own choice."""

    id: str
    url: str | None = None
    model: str = ""
    messages: tuple[Message, ...] = ()


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
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.{os.getpid()}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
            opened.write(msgspec.json.encode(session))
        new.replace(target)
        return target

    def load(self, name: str = "") -> ChatSession:
        """Read a session by its id or its file's path; without a name, the last one. Raises `ConfigError`."""
        names = self.list_ids()
        if not name and not names:
            raise ConfigError("there is no session to resume")
        file = Path(name) if name.endswith(".json") else self._folder / f"{name or names[-1]}.json"
        try:
            return msgspec.json.decode(file.read_bytes(), type=ChatSession)
        except FileNotFoundError as error:
            known = ", ".join(names[-5:]) or "none"
            raise ConfigError(f"there is no session {name!r} (the last ones are: {known})") from error
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: not a session: {error}") from error


def default_session_folder(env: Mapping[str, str]) -> Path:
    """Return the default folder of sessions."""
    state = env.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fcshim" / "sessions"
