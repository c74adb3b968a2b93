"""What a server repeats of its own credentials reaches nobody."""

import pytest

from fcshim.mcp import HttpTransport, McpServerConfig, StdioTransport
from fcshim.mcp.server_secrets import mask_result, secrets_mask
from fcshim.messages import TextPart
from fcshim.tools.result import ToolResult
from tests.mcp.server_programs import manager, stdio_transport

pytestmark = pytest.mark.security

TOKEN = "canary-4f1d9c27"


def masked(text, transport):
    return secrets_mask(McpServerConfig(name="s", transport=transport)).mask_text(text)


@pytest.mark.parametrize(
    "transport",
    [
        StdioTransport(command="x", env={"TOKEN": TOKEN}),
        StdioTransport(command="x", env={"GITHUB_PERSONAL_ACCESS_TOKEN": TOKEN}),
        StdioTransport(command="x", args=("--api-key", TOKEN)),
        StdioTransport(command="x", args=(f"--api-key={TOKEN}",)),
        HttpTransport(url="https://a/mcp", headers={"Authorization": f"Bearer {TOKEN}"}),
        HttpTransport(url="https://a/mcp", headers={"X-Api-Key": TOKEN}),
        HttpTransport(url=f"https://a/mcp?key={TOKEN}"),
        HttpTransport(url=f"https://me:{TOKEN}@a/mcp"),
    ],
)
def test_credentials_are_known_by_their_names(transport):
    assert TOKEN not in masked(f"refused: {TOKEN}", transport)


@pytest.mark.parametrize(
    "transport",
    [
        StdioTransport(command="x", env={"DATA_FOLDER": TOKEN, "MAX_TOKENS": "100000000"}, args=("--root", TOKEN)),
        HttpTransport(url=f"https://a/{TOKEN}", headers={"X-Region": TOKEN}),
    ],
)
def test_other_values_stay(transport):
    assert f"in {TOKEN}" == masked(f"in {TOKEN}", transport)


def test_a_result_without_credentials_stays_the_same():
    mask = secrets_mask(McpServerConfig(name="s", transport=StdioTransport(command="x", env={"TOKEN": TOKEN})))
    result = ToolResult((TextPart("fine"),), structured={"a": 1})

    assert result is mask_result(result, mask)


@pytest.mark.parametrize("manner", ["tells-error", "tells-text", "tells-value", "tells-end"])
async def test_no_way_leads_to_the_credentials(manner, caplog):
    transport = stdio_transport("raw", manner)
    transport = StdioTransport(command=transport.command, args=transport.args, env={**transport.env, "TOKEN": TOKEN})
    async with manager(McpServerConfig(name="s", transport=transport, handshake=True)) as servers:
        result = await servers.call("s:work", {})
        shown = [result.text, repr(result), repr(servers.status()), caplog.text]

    assert not [each for each in shown if TOKEN in each]
    assert [each for each in shown if "*" * len(TOKEN) in each]
