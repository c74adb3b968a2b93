"""The plan that each agent carries out: create a file, run it, read two files at once, edit one; then run it again.

Rule: only what the tools did counts. The program that is run leaves a file that is made from a secret of this run, and
every file is compared byte for byte.
"""

import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.agents.model import Action, Part, last_words

HARD = (
    r"""it's "so" \n \\ \" \x41 é ✓ 日本 😀 </function_call> <tool_call> </tool_call> {"a": [1]} $HOME `x` %s <b> &"""
)
"""What is hard to carry through JSON, tags and a shell. Without a backslash and u: Claude Code itself decodes those."""
_SHIFT = str.maketrans(string.ascii_lowercase, string.ascii_lowercase[1:] + "a")


def _secret() -> str:
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))


@dataclass(frozen=True)
class Plan:
    """The files before, the steps, and the files and words that must be there afterwards."""

    folder: Path
    secret: str = field(default_factory=_secret)
    script: str = (
        f"# {HARD}\nprintf 'EFFECT ' >> effect.txt\ntr a-z b-za < secret.txt >> effect.txt\n"
        "cat notes.txt >> effect.txt\ngrep EFFECT effect.txt\n"
    )
    edited: str = f"CHANGED {HARD[::-1]} {HARD}"

    def write_files(self) -> None:
        """Create the files that are there before."""
        self.folder.mkdir()
        for name, text in {"secret.txt": self.secret + "\n", "notes.txt": self.notes, "other.txt": HARD}.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    @property
    def notes(self) -> str:
        """The file to edit, before."""
        return f"first\nKEEP {HARD} END\nlast\n"

    def parts(self) -> Sequence[Part]:
        """Return the steps."""
        run = self._action("run", command="sh check.sh")
        first = [
            [self._action("create", path="check.sh", text=self.script, added=_added(self.script))],
            [run],
            [self._action("read", path="notes.txt"), self._action("read", path="other.txt")],
            [self._action("edit", path="notes.txt", text=self.edited)],
        ]
        return (first, [[run]])

    def _action(self, name: str, **values: str) -> Action:
        return Action(name, {"folder": str(self.folder), **values})

    @property
    def report(self) -> str:
        """What the run program prints."""
        return f"EFFECT {self.secret.translate(_SHIFT)}"

    def last_words(self) -> list[str]:
        """Return what the model says at the end of each part, which shows that results reached it."""
        return [last_words(steps, self.report) for steps in (4, 5)]

    def files(self, parts: int) -> dict[str, str]:
        """Return the files after some of the parts."""
        notes = f"first\n{self.edited}\nlast\n"
        effects = [f"{self.report}\n{self.notes}", f"{self.report}\n{notes}"]
        return {"check.sh": self.script, "notes.txt": notes, "effect.txt": "".join(effects[:parts])}

    def found(self, parts: int) -> dict[str, str]:
        """Read the same files."""
        paths = {name: self.folder / name for name in self.files(parts)}
        return {name: path.read_bytes().decode() if path.exists() else "" for name, path in paths.items()}


def _added(text: str) -> str:
    return "\n".join(f"+{line}" for line in text.splitlines())
