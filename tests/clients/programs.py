"""The programs of the documentation, run in the environment of their framework."""

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.environments import CACHE, ROOT, node_folder


def programs(page: str, language: str) -> list[str]:
    """Return the blocks of a page, a path from the checkout, that are written in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run_program(program: str, environment: str, folder: Path) -> str:
    """Run a program and return what it prints; without an environment, in that of the tests.

    A program for Node is written beside its packages, because Node searches for them in the file's folder.
    """
    own = CACHE / environment
    if (own / "node_modules").is_dir():
        command, file = node_folder() / "node", own / "program.mjs"
    else:
        command, file = own / "bin" / "python" if environment else Path(sys.executable), folder / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [str(command), str(file)], cwd=file.parent, capture_output=True, text=True, timeout=120, check=False
    )

    assert 0 == done.returncode, done.stderr
    return done.stdout
