"""The tool Bash.

Rule: every command needs approval; destructive commands without a possible purpose are refused even then.
"""

import os
import shutil
from typing import Annotated

from fcshim.errors import ToolError
from fcshim.tools.base import Traits
from fcshim.tools.builtin.command import CommandResult, run_command
from fcshim.tools.builtin.workspace import Workspace
from fcshim.tools.commands.risks import inspect_command
from fcshim.tools.function import FunctionTool

DEFAULT_SECONDS = 120.0
OUTPUT_LIMIT = 100 * 1024
"""Bytes of output that are kept: a quarter from its beginning, the rest from its end, which says how it went."""
_NOTES_SIZE = 10_000
"""Characters that warnings and notes beside them may take."""


class Shell:
    """The tool that runs commands in a workspace; `seconds` is the time limit of one command."""

    def __init__(self, workspace: Workspace, *, seconds: float = DEFAULT_SECONDS) -> None:
        self._workspace = workspace
        self._seconds = seconds
        self._shell = shutil.which("bash") or "/bin/sh"

    def tools(self) -> list[FunctionTool]:
        """Return the tool."""
        # The executor waits longer than the command may run, so that a stopped command's output is still returned.
        traits = Traits(
            subject="command",
            subject_kind="command",
            root=self._workspace.root,
            source="builtin:shell",
            parallel=False,
            timeout=self._seconds + 10,
            max_output=OUTPUT_LIMIT + _NOTES_SIZE,
        )
        return [FunctionTool(self.bash, name="Bash", traits=traits)]

    async def bash(self, command: Annotated[str, "what to run, in the workspace"]) -> str:
        """Run a shell command. What it leaves running in the background is ended with it."""
        risks = inspect_command(command, self._workspace.root)
        if risks.refusal:
            raise ToolError(f"The command was not run: {risks.refusal}.")
        try:
            result = await run_command(
                [self._shell, "-c", command],
                cwd=self._workspace.root,
                seconds=self._seconds,
                max_output=OUTPUT_LIMIT,
                keep_end=True,
                contain=True,
                env=_environment(),
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"The command cannot be run: {error}") from error
        text = "".join(f"[Warning: it {warning}]\n" for warning in risks.warnings) + self._format_output(result)
        if result.code != 0:
            raise ToolError(text)
        return text

    def _format_output(self, result: CommandResult) -> str:
        output = result.output.decode(errors="replace").rstrip("\n")
        if result.truncated:
            end = result.end.decode(errors="replace").rstrip("\n")
            output += f"\n(truncated: the middle of the output, beyond {OUTPUT_LIMIT} bytes, is left out)\n{end}"
        match result.code:
            case None:
                return f"{output}\n(stopped after {self._seconds:g} seconds)".lstrip("\n")
            case 0:
                return output or "(no output)"
            case code:
                return f"{output}\n(exit code {code})".lstrip("\n")


def _environment() -> dict[str, str]:
    """Return the user's environment without fcshim's own variables, which may hold keys."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FCSHIM_")}
