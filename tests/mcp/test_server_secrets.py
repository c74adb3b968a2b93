"""What a server repeats of its own credentials reaches nobody."""

import asyncio

import pytest
from mcp.types import JSONRPCResponse

from fcshim.mcp import HttpTransport, McpServerConfig, StdioTransport
from fcshim.mcp.resources import ServerOffers
from fcshim.mcp.server_secrets import mask_message, secrets_mask
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


def response(result):
    return JSONRPCResponse(jsonrpc="2.0", id=1, result=result)


def mask_of_token(token=TOKEN):
    return secrets_mask(McpServerConfig(name="s", transport=StdioTransport(command="x", env={"TOKEN": token})))


async def test_a_message_without_credentials_stays_the_same():
    message = response({"content": [{"type": "text", "text": "fine"}], "structuredContent": {"a": 1}})
    before = message.result
    await mask_message(message, mask_of_token())

    assert before is message.result


async def test_a_value_that_only_looks_like_an_escape_beside_the_credential_stays_json():
    """Masking the JSON text took the `n` of a line feed for the credential's first letter."""
    message = response({"structuredContent": {"a": "\nanary-12345", "b": ["nanary-12345", 5], "nanary-12345": None}})
    await mask_message(message, mask_of_token("nanary-12345"))

    assert {"a": "\nanary-12345", "b": ["*" * 12, 5], "*" * 12: None} == message.result["structuredContent"]


async def test_other_tasks_run_while_a_long_text_is_masked():
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    message = response({"text": "c%41" * 500_000 + TOKEN})
    await mask_message(message, mask_of_token())
    counting.cancel()

    assert message.result["text"].endswith("*" * len(TOKEN))
    assert turns > 30


@pytest.mark.parametrize("between", ["\n", " ", "\r\n"])
def test_a_private_key_is_masked_with_other_line_breaks(between):
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "AQEFAASCBKcwggSjAgEAAoIB"]
    masked = mask_of_token("\n".join(lines)).mask_text(f"bad key: {between.join(lines)}")

    assert not [line for line in lines[1:] if line in masked]


async def test_credentials_in_descriptions_resources_and_prompts_are_masked():
    transport = stdio_transport("raw", "tells-resource")
    transport = StdioTransport(command=transport.command, args=transport.args, env={**transport.env, "TOKEN": TOKEN})
    async with manager(McpServerConfig(name="s", transport=transport, handshake=True)) as servers:
        offers = ServerOffers(servers)
        listed = repr(await offers.resources("s")) + repr(await offers.prompts("s"))
        read = repr(await offers.read_for_model("s", "a://b")) + repr(await offers.get_prompt("s", "p", {}))

    assert TOKEN not in listed + read
    assert 2 == listed.count("*" * len(TOKEN))
    assert 2 == read.count("*" * len(TOKEN))


async def test_credentials_in_descriptions_of_tools_are_masked():
    transport = stdio_transport("raw", "tells-tool")
    transport = StdioTransport(command=transport.command, args=transport.args, env={**transport.env, "TOKEN": TOKEN})
    async with manager(McpServerConfig(name="s", transport=transport, handshake=True)) as servers:
        (tool,) = servers.tools()

    assert f"Uses {'*' * len(TOKEN)}." == tool.definition.description


@pytest.mark.parametrize("manner", ["tells-error", "tells-text", "tells-value", "tells-end"])
async def test_no_way_leads_to_the_credentials(manner, caplog):
    transport = stdio_transport("raw", manner)
    transport = StdioTransport(command=transport.command, args=transport.args, env={**transport.env, "TOKEN": TOKEN})
    async with manager(McpServerConfig(name="s", transport=transport, handshake=True)) as servers:
        result = await servers.call("s:work", {})
        shown = [result.text, repr(result), repr(servers.status()), caplog.text]

    assert not [each for each in shown if TOKEN in each]
    assert [each for each in shown if "*" * len(TOKEN) in each]
