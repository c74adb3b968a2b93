"""The environment with Ray and this checkout: 500 MB in `.cache/ray`, because the other tests do not need them.

Rule: `python -m tests.integrations.ray_environment` makes it (`make test-scale`); a second run reuses it.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "ray"
BIN = FOLDER / "bin"
_STAMP = FOLDER / "complete"
_PROJECT = ROOT / "pyproject.toml"
_SECONDS = 900.0


def missing() -> str:
    """Return how to make the environment; empty if it is there."""
    return "" if _STAMP.exists() else "python -m tests.integrations.ray_environment"


def main() -> None:
    """Make the environment, unless it is newer than the project's requirements."""
    if _STAMP.exists() and _STAMP.stat().st_mtime >= _PROJECT.stat().st_mtime:
        return
    pip = [str(BIN / "python"), "-m", "pip", "install", "--quiet"]
    commands = [
        [sys.executable, "-m", "venv", str(FOLDER)],
        [*pip, "--upgrade", "pip"],
        [*pip, "--editable", f"{ROOT}[ray,mcp]"],
    ]
    for command in commands:
        subprocess.run(command, check=True, timeout=_SECONDS)
    _STAMP.touch()


if __name__ == "__main__":
    main()
