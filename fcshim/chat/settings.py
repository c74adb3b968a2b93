"""The settings of a chat, as the command line gives them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fcshim.agent import DEFAULT_MAX_ROUNDS
from fcshim.chat.session import SessionOptions
from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config import Config, ToolsPolicy
from fcshim.tools.permission import PermissionMode

SCRIPT_SECONDS = 60.0
"""Seconds that a script waits for slow servers by default; a package that is downloaded first takes that long."""

TURN_SECONDS = 10.0
"""Seconds that the first turn of an interactive chat waits for slow servers by default."""

BELL_SECONDS = 5.0
"""Seconds after which a question rings by default: a user at the screen has answered by then, or is reading."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the command line; `url` None: the embedded model, `resume` None: a new session.

    None for an option of a session takes that of the resumed session, or the default. `wait` None: `SCRIPT_SECONDS` for
    a script, `TURN_SECONDS` for the first turn of an interactive chat. `config` has the settings of all commands.
    """

    url: str | None = None
    model: str = ""
    api: UpstreamApi | None = None
    tools: ToolsPolicy | None = None
    dialect: str | None = None
    key: str | None = None
    mcp: str | None = None
    pins: str | None = None
    root: str | None = None
    custom: str | None = None
    skills: str | None = None
    commands: str | None = None
    profiles: str | None = None
    agents: bool = False
    mode: PermissionMode = "ask"
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    system: str = ""
    max_rounds: int = DEFAULT_MAX_ROUNDS
    resume: str | None = None
    save: bool = True
    prompt: str | None = None
    json: bool = False
    wait: float | None = None
    bell: float | None = BELL_SECONDS
    config: Config = Config()

    @property
    def script_wait(self) -> float:
        """Seconds that a script waits for slow servers."""
        return SCRIPT_SECONDS if self.wait is None else self.wait

    @property
    def turn_wait(self) -> float:
        """Seconds that the first turn of an interactive chat waits for slow servers."""
        return TURN_SECONDS if self.wait is None else self.wait

    @property
    def options(self) -> SessionOptions:
        """The options that a session saves. Paths are absolute, since it may be resumed in another folder."""
        given = msgspec.convert(self, SessionOptions, from_attributes=True)
        paths = {name: str(Path(path).expanduser().absolute()) for name, path in given.paths.items()}
        return msgspec.structs.replace(given, **paths)
