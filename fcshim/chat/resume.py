"""Continues a saved session with its saved options, those of the command line, and what the user confirms.

Rule: options of the command line take precedence, and a line says so. A file may come from someone else: until the user
has agreed, its address gets neither the conversation nor a key, and its folders and servers are not used; a script must
name them.
"""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fcshim.chat.session import ChatSession, SessionOptions, SessionStore
from fcshim.chat.settings import ChatSettings
from fcshim.errors import ConfigError
from fcshim.sanitize import sanitize_line

_ENDPOINT_OPTIONS = ("api", "tools", "dialect")
"""Options that belong to an endpoint: another address does not take them over."""


class ResumedSession:
    """A session that is continued; `show` shows a line. Raises `ConfigError` for an address that is not confirmed."""

    def __init__(self, name: str, store: SessionStore, settings: ChatSettings, show: Callable[[str], None]) -> None:
        self._name = name
        self._store = store
        self._settings = settings
        self._show = show

    def session(self, new_id: str) -> ChatSession:
        """Return the session with the merged options. A file from elsewhere does not replace a saved session."""
        session = self._store.load(self._name)
        if self._is_foreign:
            session.id = new_id
        if session.url is not None and self._settings.url is None:
            self._confirm_address(session.url)
        same_endpoint = self._settings.url in (None, session.url)
        kept = session.options if same_endpoint else msgspec.structs.replace(session.options, **_UNSET_ENDPOINT)
        self._say_replaced("address", session.url, self._settings.url)
        self._say_replaced("model", session.model, self._settings.model)
        session.model = self._settings.model or session.model
        session.url = self._settings.url or session.url
        session.options = self._merge(kept, self._settings.options)
        return session

    @property
    def _is_foreign(self) -> bool:
        return self._name.endswith(".json")

    def _merge(self, kept: SessionOptions, given: SessionOptions) -> SessionOptions:
        """Return the options of both; those of the session only if their folders exist and may be used."""
        for name, value in _listed(given):
            self._say_replaced(f"--{name}", getattr(kept, name), value)
        restored = {name: value for name, value in _listed(kept) if not getattr(given, name)}
        risky = {name: path for name, path in kept.paths.items() if name in restored}
        excluded = [name for name, value in risky.items() if not Path(value).exists()]
        for name in excluded:
            self._show(f"--{name} {risky.pop(name)} of the session no longer exists; it continues without that")
        if not self._may_use(risky):
            excluded += risky
        return msgspec.structs.replace(given, **{name: restored[name] for name in restored if name not in excluded})

    def _may_use(self, risky: dict[str, str]) -> bool:
        options = " ".join(f"--{name} {_short(value)}" for name, value in risky.items())
        if not risky:
            return True
        if not self._is_foreign:
            self._show(f"again with {options}")
            return True
        if self._settings.prompt is not None:
            self._show(f"without what the session's file names, as a script cannot be asked; to use it: {options}")
            return False
        notice = f"The session in the file used {options}, which can change files and start programs."
        return _confirm(f"{notice} Use them again? [y]es, [n]o: ")

    def _confirm_address(self, url: str) -> None:
        """Ask whether the conversation, and the key, may go to an address. Raises `ConfigError`."""
        advice = f"to use it, name it: fcshim chat {shlex.join([url, '--resume', *filter(None, [self._name])])}"
        if self._settings.prompt is not None:
            raise ConfigError(f"the session was with {url}; {advice}")
        contents = "the conversation and the API key" if self._settings.key else "the conversation"
        if not _confirm(f"The session was with {url}. Send {contents} there? [y]es, [n]o: "):
            raise ConfigError(f"the session was with {url}, which was not confirmed; another one can be named")

    def _say_replaced(self, option: str, old: object, new: object) -> None:
        if old and new and old != new:
            self._show(f"{option}: {new}, in place of the session's {old}")


_UNSET_ENDPOINT = dict.fromkeys(_ENDPOINT_OPTIONS)


def _short(path: str) -> str:
    """Return a path as a shell reads it, with `~` for the user's folder."""
    home = f"{Path.home()}/"
    return f"~/{shlex.quote(path.removeprefix(home))}" if path.startswith(home) else shlex.quote(path)


def _listed(options: SessionOptions) -> Iterator[tuple[str, str | bool]]:
    """Yield the options that are set."""
    for name in options.__struct_fields__:
        if value := getattr(options, name):
            yield name, value


def _confirm(question: str) -> bool:
    try:
        return input(sanitize_line(question)).strip().lower() in ("y", "yes")
    except EOFError:
        return False
