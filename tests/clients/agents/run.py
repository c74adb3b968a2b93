"""Runs a coding agent without a terminal, in a home folder of its own.

Rule: an agent gets no variable of ours, its requests go to loopback, and what it started is ended with it, whatever it
became.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fcshim.events import JSON
from fcshim.tools.process_guard import ProcessGuard, kill_group, mark_environment
from tests.clients.agents.model import TASK
from tests.clients.agents.table import Agent
from tests.clients.environments import node_folder, program_folder

LIMIT = 300.0
"""Seconds for one run of an agent; most take less than ten on a machine that does nothing else."""
_BASES = {"openai_chat": "/v1", "openai_responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
_NOWHERE = "http://127.0.0.1:9"
"""A proxy that nothing listens on: a request that is not for loopback fails at once."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended; the status is None if it was ended because it took too long."""

    status: int | None
    output: str


@dataclass(frozen=True)
class AgentRunner:
    """Runs one agent, with its settings for one API, in `folder`."""

    name: str
    agent: Agent
    api: str
    model: str
    url: str
    home: Path
    folder: Path

    def write_settings(self) -> None:
        """Write the agent's settings below its home folder."""
        self.home.mkdir()
        for name, content in self.agent.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            filled = self._fill(content)
            path.write_text(filled if isinstance(filled, str) else json.dumps(filled), encoding="utf-8")

    async def run(self, *, resumed: bool) -> Outcome:
        """Give the agent its task, in a new session or in the last one."""
        arguments = self._fill(list(self.agent.resume if resumed else self.agent.start))
        async with ProcessGuard() as guard:
            mark = guard.new_mark()
            process = await asyncio.create_subprocess_exec(
                *(str(program_folder(self.name) / self.agent.program), *arguments),
                cwd=self.folder,
                env={**self._environment(), **mark_environment(mark)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            guard.add_group(process.pid)
            try:
                async with asyncio.timeout(LIMIT):
                    output, _ = await process.communicate()
                return Outcome(process.returncode, output.decode(errors="replace"))
            except TimeoutError:
                return Outcome(None, f"ended after {LIMIT} s")
            finally:
                await kill_group(process.pid, mark)
                await process.wait()

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{node_folder()}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            **self._fill(dict(self.agent.environment)),
        }

    def _fill(self, template: JSON) -> JSON:
        match template:
            case str():
                return _replace(template, self._values())
            case dict():
                return {self._fill(key): self._fill(value) for key, value in template.items()}
            case list():
                return [self._fill(value) for value in template]
            case _:
                return template

    def _values(self) -> dict[str, str]:
        return {
            "url": self.url,
            "base": self.url + _BASES[self.api],
            "versioned": self.url + (_BASES[self.api] or "/v1"),
            "api": self.agent.apis[self.api],
            "model": self.model,
            "task": TASK,
        }


def _replace(text: str, values: Mapping[str, str]) -> str:
    """Fill in the values; other braces stay as they are, as settings are full of them."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
