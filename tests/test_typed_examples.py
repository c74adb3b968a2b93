"""The programs of the pages and of examples/ pass `mypy --strict`; frameworks that are not installed have no types."""

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.environments import ROOT
from tests.clients.programs import programs

OPTIONS = ("--strict", "--ignore-missing-imports", "--allow-untyped-decorators", "--allow-subclassing-any")


def modules(page: Path) -> dict[str, str]:
    """Return the programs of a page by the names of their modules."""
    blocks = programs(str(page.relative_to(ROOT)), "python")
    if page.name == "custom-reader.md":  # the first two are the module that the third one imports
        return {"lines": "\n".join(blocks[:2]), "use_of_lines": blocks[2]}
    return {re.sub(r"\W", "_", f"{page.relative_to(ROOT)} {number}"): block for number, block in enumerate(blocks)}


def test_every_example_is_typed(tmp_path: Path) -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for name, program in modules(page).items():
            (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    files = [*tmp_path.glob("*.py"), *(ROOT / "examples").glob("*.py")]
    command = [sys.executable, "-m", "mypy", *OPTIONS, "--scripts-are-modules", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)

    assert len(files) > 30
    assert 0 == done.returncode, done.stdout + done.stderr
