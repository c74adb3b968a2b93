"""A server from npm's registry, the usual case. Requirement 31."""

import shutil
import subprocess

import pytest

from fcshim.mcp import McpServerConfig, NpmTransport
from fcshim.mcp.connection import ConnectionTimeouts
from tests.mcp.server_programs import manager

INSTALLING = ConnectionTimeouts(start=120.0, connect=120.0)
FILES = "@modelcontextprotocol/server-filesystem@2025.8.21"


@pytest.fixture(scope="module", autouse=True)
def registry():
    """Skip without npm, or without access to its registry."""
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed")
    try:
        subprocess.run(["npm", "view", FILES, "version"], capture_output=True, timeout=30, check=True)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("npm's registry cannot be reached")


async def test_a_package_is_installed_and_run(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    reach = NpmTransport(package=FILES, args=(str(tmp_path),))
    async with manager(McpServerConfig(name="files", transport=reach), timeouts=INSTALLING) as servers:
        result = await servers.call("files:read_text_file", {"path": str(tmp_path / "a.txt")})
        refused = await servers.call("files:read_text_file", {"path": "/etc/passwd"})

    assert "hello" == result.text
    assert refused.is_error
    assert "Access denied" in refused.text
