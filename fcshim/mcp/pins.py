"""Definitions of tools, each pinned when the tool is first seen.

Rule: a server that changes a pinned definition is not used until the user approves; a new tool is pinned at once, and
another program under the same server name starts without pins.

A description is an instruction to the model: a server may pass review and turn hostile later (CVE-2025-54136).
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.mcp.settings import McpServerConfig

if TYPE_CHECKING:
    from mcp.types import Tool

logger = logging.getLogger(__name__)


_MAX_KEPT = 32 * 1024
"""Characters of a definition that is kept for a comparison; of a longer one only the digest is, to bound the file."""


_CONNECT_MODES = "ways"
"""The member of the file with the servers' connect modes; the other members are named by digests."""


class ToolChange(msgspec.Struct, frozen=True):
    """A tool whose definition differs from the pinned one; `before` is None if only its digest was kept."""

    name: str
    before: JSON
    after: JSON


class Pins:
    """The definitions of the tools of every server, in a file if there is a path, else in memory.

    Other processes may write the file (`fcshim tools approve`): their entries take precedence. Raises `ConfigError` for
    a file that cannot be read: without it no change could be detected.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file_state = _stat_file(path)
        self._pinned: dict[str, dict[str, JSON]] = _read_file(path) if path is not None else {}

    def check(self, server: McpServerConfig, tools: "Iterable[Tool]") -> tuple[str, ...]:
        """Return the names of the tools that have changed; if there are none, pin the new ones."""
        self._reload()
        known = self._pinned.setdefault(server.identity, {})
        seen = {tool.name: definition(tool) for tool in tools}
        changed = tuple(
            name for name, value in seen.items() if name in known and _digest(known[name]) != _digest(value)
        )
        new = {name: _kept(value) for name, value in seen.items() if name not in known}
        if new and not changed:
            known.update(new)
            self._write()
        return changed

    def changes(self, server: McpServerConfig, tools: "Iterable[Tool]") -> tuple[ToolChange, ...]:
        """Return what differs from the pinned definitions."""
        self._reload()
        known = self._pinned.get(server.identity, {})
        seen = {tool.name: definition(tool) for tool in tools}
        return tuple(
            ToolChange(name, known[name] if isinstance(known[name], dict) else None, value)
            for name, value in seen.items()
            if name in known and _digest(known[name]) != _digest(value)
        )

    def approve(self, server: McpServerConfig, tools: "Iterable[Tool]") -> None:
        """Pin these definitions."""
        self._reload()
        self._pinned.setdefault(server.identity, {}).update({tool.name: _kept(definition(tool)) for tool in tools})
        self._write()

    def connect_mode(self, server: McpServerConfig) -> str:
        """Return the name of the mode in which the server was last connected; empty for the usual one."""
        return str(self._pinned.get(_CONNECT_MODES, {}).get(server.identity, ""))

    def remember_connect_mode(self, server: McpServerConfig, mode: str) -> None:
        """Remember the mode of a connected server: detecting it again would take ten seconds at each start."""
        if mode != self.connect_mode(server):
            self._reload()
            self._pinned.setdefault(_CONNECT_MODES, {})[server.identity] = mode
            self._write()

    def _reload(self) -> None:
        """Merge what another process wrote. A file that cannot be read any more changes nothing."""
        state = _stat_file(self._path)
        if self._path is None or state in (None, self._file_state):
            return
        try:
            stored = _read_file(self._path)
        except ConfigError as error:
            logger.warning("%s", error)
        else:
            current = self._pinned
            self._pinned = {
                server: {**current.get(server, {}), **stored.get(server, {})} for server in {**current, **stored}
            }
        self._file_state = state

    def _write(self) -> None:
        """Write the pins. If that fails, they last as long as this process."""
        if self._path is None:
            return
        try:
            self._replace_file(self._path)
        except OSError as error:
            logger.warning("%s: the pins of MCP tools are not saved: %s", self._path, error.strerror)

    def _replace_file(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(self._pinned, indent=1, sort_keys=True), encoding="utf-8")
        new.replace(path)
        self._file_state = _stat_file(path)


class ListedTools:
    """The tools of one server's last list, compared with its pins; `on_change` is called when anything of it changes.

    While a definition waits for approval, none of the tools is offered.
    """

    def __init__(self, server: McpServerConfig, pins: Pins, on_change: Callable[[], None]) -> None:
        self._server = server
        self._pins = pins
        self._on_change = on_change
        self.all: tuple[Tool, ...] = ()
        """All of them, approved or not."""
        self.changed: tuple[str, ...] = ()
        """The names of those whose definitions differ from the approved ones."""
        self.left_out: Mapping[str, str] = {}
        """Why others that the server lists cannot be used, by their names."""

    @property
    def offered(self) -> "tuple[Tool, ...]":
        """The tools that can be called."""
        return () if self.changed else self.all

    def update(self, tools: "tuple[Tool, ...]") -> None:
        """Take the server's list."""
        before = (self.all, self.changed)
        self.all, self.changed = tools, self._pins.check(self._server, tools)
        if before != (self.all, self.changed):
            self._on_change()

    def changes(self) -> tuple[ToolChange, ...]:
        """Return how the changed tools differ from the approved ones."""
        return self._pins.changes(self._server, self.all)

    def withheld(self) -> dict[str, str]:
        """Return why tools that the server lists are not offered, by their names."""
        reasons = dict(self.left_out)
        for tool in self.all if self.changed else ():
            reasons[tool.name] = "its definition changed" if tool.name in self.changed else "another tool changed"
        return reasons

    def approve(self, tools: "Iterable[Tool] | None" = None) -> None:
        """Approve these definitions of the server's tools, by default those that it lists now."""
        self._pins.approve(self._server, self.all if tools is None else tools)
        self.changed = self._pins.check(self._server, self.all)
        self._on_change()

    def recheck(self) -> None:
        """Check whether another process has approved the changed tools."""
        if self.changed:
            self.update(self.all)


def default_pin_file(env: Mapping[str, str]) -> Path:
    """Return the default file of pins."""
    state = env.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fcshim" / "mcp-pins.json"


def definition(tool: "Tool") -> dict[str, JSON]:
    """Return a tool's whole definition, except its icons and metadata."""
    whole: dict[str, JSON] = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"})
    return whole


def _digest(pinned: JSON) -> str:
    """Return the digest of a definition; one that was pinned by its digest alone is a string."""
    if isinstance(pinned, str):
        return pinned
    return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()


def _kept(value: dict[str, JSON]) -> JSON:
    return value if len(json.dumps(value)) <= _MAX_KEPT else _digest(value)


def _stat_file(path: Path | None) -> tuple[int, int, int] | None:
    """Return values that change with each write of the file; None if there is no file."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def _read_file(path: Path) -> dict[str, dict[str, JSON]]:
    if not path.exists():
        return {}
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not a file of pinned tools: {error}") from error
    if not isinstance(known, dict) or not all(isinstance(tools, dict) for tools in known.values()):
        raise ConfigError(f"{path}: not a file of pinned tools")
    return known
