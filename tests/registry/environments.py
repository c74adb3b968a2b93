"""The MCP servers of the registries: Python ones in an environment each, Node ones in one folder.

Rule: everything is in `.cache/mcp-servers`; a second run reuses what the first one made. Versions are exact, as for any
server that runs with a user's rights.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "mcp-servers"
NODE_PACKAGES = {
    "everything": "@modelcontextprotocol/server-everything@2026.8.31",
    "filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31",
    "memory": "@modelcontextprotocol/server-memory@2026.8.31",
    "sequential-thinking": "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
}
PYTHON_PACKAGES = {
    "git": ("mcp-server-git==2026.10.19",),
    "fetch": ("mcp-server-fetch==2026.10.24",),
    "time": ("mcp-server-time==2026.10.19",),
    "sdk-1.2": ("mcp==1.2.1", "pydantic<2.12"),
    "sdk-1.8": ("mcp==1.8.1", "pydantic<2.12"),
}
"""`sdk-` ones run `tests/registry/old_server.py` on an old version of the SDK."""


def main(names: Sequence[str]) -> None:
    """Create the missing environments of these servers, or of all."""
    for name in names or (*PYTHON_PACKAGES, *NODE_PACKAGES):
        if missing(name):
            sys.stdout.write(f"{name}\n")
            _make(name)


def missing(name: str) -> str:
    """Return what an environment lacks; empty if it is complete."""
    if name in NODE_PACKAGES and (shutil.which("node") is None or shutil.which("npm") is None):
        return f"{name}: there is no Node"
    return "" if (_folder(name) / "complete").exists() else f"{name}: python -m tests.registry.environments"


def entry(name: str, *args: str) -> dict[str, object]:
    """Return a server's entry in a servers file."""
    if name in NODE_PACKAGES:
        program = _folder(name) / "node_modules" / ".bin" / f"mcp-server-{name}"
        return {"command": str(program), "args": list(args), "env": {"PATH": os.environ["PATH"]}}
    if name.startswith("sdk-"):
        program = str(Path(__file__).parent / "old_server.py")
        return {"command": str(_folder(name) / "bin" / "python"), "args": [program, *args]}
    return {"command": str(_folder(name) / "bin" / f"mcp-server-{name}"), "args": list(args)}


def _folder(name: str) -> Path:
    return CACHE / name


def _make(name: str) -> None:
    folder = _folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    if name in NODE_PACKAGES:
        if shutil.which("npm") is None:
            return
        command = [
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(folder),
            NODE_PACKAGES[name],
        ]
        subprocess.run(command, check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *PYTHON_PACKAGES[name]], check=True)
    (folder / "complete").touch()


if __name__ == "__main__":
    main(sys.argv[1:])
