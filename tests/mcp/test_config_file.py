"""The servers file."""

import json
import re
from pathlib import Path

import pytest

from fcshim.errors import ConfigError
from fcshim.mcp import HttpTransport, Manager, McpServerConfig, NpmTransport, StdioTransport, load_servers
from fcshim.mcp.config_file import _FIELDS, _OTHER_CLIENT_FIELDS, TYPE_ALIASES, read_servers
from fcshim.mcp.settings import OAuthClient

ENV = {"HOME": "/home/me", "TOKEN": "s3cret"}


def read(**fields):
    (server,) = read_servers({"mcpServers": {"s": fields}}, ENV, "file.json")
    return server


def fault(**fields):
    with pytest.raises(ConfigError) as caught:
        read(**fields)
    return caught.value.message


def test_a_desktop_clients_file_is_read(tmp_path):
    file = tmp_path / "servers.json"
    servers = {
        "files": {"command": "npx", "args": ["-y", "pkg@1.2.3", "${HOME}/docs"], "env": {"KEY": "${TOKEN}"}},
        "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    file.write_text(json.dumps({"mcpServers": servers, "theme": "dark"}))
    command = StdioTransport(command="npx", args=("-y", "pkg@1.2.3", "/home/me/docs"), env={"KEY": "s3cret"})
    endpoint = HttpTransport(url="https://example.com/mcp", headers={"Authorization": "Bearer s3cret"})

    assert (
        McpServerConfig(name="files", transport=command),
        McpServerConfig(name="remote", transport=endpoint),
    ) == load_servers(file, ENV)


@pytest.mark.parametrize(
    ("fields", "reach"),
    [
        ({"command": "a"}, StdioTransport(command="a")),
        ({"type": "stdio", "command": "a", "cwd": "/b"}, StdioTransport(command="a", cwd="/b")),
        ({"package": "@a/b@1.2.3", "args": ["c"]}, NpmTransport(package="@a/b@1.2.3", args=("c",))),
        ({"type": "npm", "package": "b@1.2.3-rc.1"}, NpmTransport(package="b@1.2.3-rc.1")),
        ({"url": "http://a/mcp"}, HttpTransport(url="http://a/mcp")),
        ({"type": "streamable-http", "url": "http://a/mcp"}, HttpTransport(url="http://a/mcp")),
        ({"type": "sse", "url": "http://a/sse"}, HttpTransport(url="http://a/sse", sse=True)),
        ({"url": "http://a/mcp", "oauth": True}, HttpTransport(url="http://a/mcp", oauth=True)),
        ({"url": "http://a/mcp", "oauth": {"scopes": ["x"]}}, HttpTransport(url="http://a/mcp", oauth=True)),
        (
            {"url": "http://a", "oauth": {"clientId": "x", "clientSecret": "${TOKEN}", "callbackPort": 81}},
            HttpTransport(
                url="http://a",
                oauth=True,
                oauth_client=OAuthClient(client_id="x", client_secret="s3cret", redirect_port=81),
            ),
        ),
        (
            {"url": "http://a", "oauth": {"client_id": "x", "auth_method": "client_secret_post"}},
            HttpTransport(
                url="http://a", oauth=True, oauth_client=OAuthClient(client_id="x", auth_method="client_secret_post")
            ),
        ),
        ({"command": "${SHELL:-/bin/sh}"}, StdioTransport(command="/bin/sh")),
        ({"command": "${env:HOME}/x"}, StdioTransport(command="/home/me/x")),
    ],
)
def test_every_transport_is_read(fields, reach):
    """Requirement 31."""
    assert reach == read(**fields).transport


def test_fields_that_all_transports_share_are_read():
    server = read(command="a", timeout=5, allow=["read_*"], cache=60, handshake=True)

    assert (
        McpServerConfig(
            name="s", transport=StdioTransport(command="a"), timeout=5.0, allow=("read_*",), cache=60.0, handshake=True
        )
        == server
    )


@pytest.mark.parametrize("off", [{"enabled": False}, {"disabled": True}])
def test_a_disabled_server_is_left_out_whatever_else_it_says(off):
    assert () == read_servers({"mcpServers": {"s": {"command": "${NOT_SET}"} | off}}, {})


def test_fields_of_other_clients_are_ignored():
    assert StdioTransport(command="a") == read(command="a", autoApprove=["x"], iconPath="y").transport


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ".type: expected one of stdio, local, npm, sse, http"),
        ({"type": "carrier pigeon"}, ".type: expected one of stdio, local, npm, sse, http"),
        ({"type": "stdio"}, ".command: expected the program to run"),
        ({"command": 5}, ".command: expected the program to run, as a string, got 5"),
        ({"command": "a", "args": "b"}, ".args: expected a list of strings, got 'b'"),
        ({"command": "a", "env": {"K": 1}}, ".env: expected an object of strings, got ['K']"),
        ({"comand": "a"}, ".comand: expected a known field; did you mean command?"),
        ({"command": "a", "arg": []}, ".arg: expected a known field; did you mean args?"),
        ({"command": "a", "trust": "all"}, '.trust: expected "annotations", which'),
        ({"command": "a", "category": "a b"}, ".category: expected a word of at most 40 letters, got 'a b'"),
        ({"command": "a", "category": 5}, ".category: expected a word"),
        ({"command": "a", "enabled": "yes"}, ".enabled: expected true or false, got 'yes'"),
        ({"command": "a", "timeout": 0}, ".timeout: expected a number of seconds above 0, got 0"),
        ({"command": "a", "timeout": True}, ".timeout: expected a number of seconds above 0, got True"),
        ({"command": "a", "cache": -1}, ".cache: expected a number of seconds, got -1"),
        ({"package": "--eval=1@1.2.3"}, ".package: expected a package of npm, like @scope/name@1.2.3, got '--eval"),
        ({"package": "./folder"}, ".package: expected a package of npm"),
        ({"package": "git+https://a.example/x"}, ".package: expected a package of npm"),
        ({"package": "a b"}, ".package: expected a package of npm"),
        (
            {"url": "http://a", "oauth": {"client_id": "x", "redirect_port": 0}},
            ".oauth: expected client_id, client_secret, redirect_port, auth_method of the registered client: Expected",
        ),
        ({"url": "http://a", "oauth": "yes"}, ".oauth: expected true, false or an object, got 'yes'"),
        ({"url": "ftp://a"}, ".url: expected an http or https URL, got 'ftp://a'"),
        ({"url": "http://[a"}, ".url: expected an http or https URL"),
        ({"url": "http://a", "headers": {"a b": "c"}}, ".headers: expected 'a b' to be a header's name"),
        ({"url": "http://a", "headers": {"a": "b\r\nc: d"}}, ".headers: expected 'a' to be a header's name"),
    ],
)
def test_an_error_names_the_file_the_server_the_field_and_what_was_expected(fields, expected):
    assert f"file.json: mcpServers.s{expected}" in fault(**fields)


@pytest.mark.parametrize("document", [[], {}, {"mcpServers": []}, {"servers": {}}, None, 5])
def test_a_document_without_servers_is_refused(document):
    with pytest.raises(ConfigError, match=r'file\.json: expected {"mcpServers"'):
        read_servers(document, {}, "file.json")


@pytest.mark.parametrize("name", ["", " ", "a:b"])
def test_a_name_that_is_empty_or_has_a_colon_is_refused(name):
    with pytest.raises(ConfigError, match="a name without colon"):
        read_servers({"mcpServers": {name: {"command": "a"}}}, {})


def test_a_server_must_be_an_object():
    with pytest.raises(ConfigError, match=r"mcpServers\.s: expected an object of fields, got 'npx'"):
        read_servers({"mcpServers": {"s": "npx"}}, {})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{", r"servers.json:1:2: not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b" " * 2**21, "lar"),
        (b'{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "'a' comes twice"),
    ],
)
def test_a_file_that_is_not_json_is_named(tmp_path, data, expected):
    file = tmp_path / "servers.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=expected):
        load_servers(file, {})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"servers\.json: No such file"):
        load_servers(tmp_path / "servers.json", {})


def test_secrets_do_not_show():
    server = read(command="a", args=["--key=${TOKEN}"], env={"K": "${TOKEN}"})
    remote = read(url="https://a/?key=${TOKEN}", headers={"K": "${TOKEN}"})

    assert "s3cret" not in repr(server) + repr(remote)


def test_another_program_under_the_same_name_is_another_server():
    assert read(command="a").identity != read(command="b").identity
    assert read(command="a").identity != read(url="http://a").identity
    assert read(command="a").identity == read(command="a", timeout=5).identity


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "${NOPE}"},
        {"command": "a", "args": ["x", "${NOPE}"]},
        {"command": "a", "env": {"A": "${NOPE}"}},
        {"url": "${NOPE}"},
        {"url": "http://a", "headers": {"A": "Bearer ${NOPE}"}},
        {"package": "${NOPE}"},
        {"command": "a", "allow": ["${NOPE}"]},
    ],
)
async def test_a_variable_that_is_not_set_disables_its_server_only(fields):
    document = {"mcpServers": {"s": fields, "t": {"command": "a"}}}
    broken, sound = read_servers(document, ENV)
    async with Manager([broken]) as servers:
        (status,) = servers.status()

    assert StdioTransport(command="a") == sound.transport
    assert "its settings need the environment variable NOPE, which is not set" == status.error


FLOATING = [
    {"command": "npx", "args": ["-y", "pkg"]},
    {"command": "npx", "args": ["-y", "@scope/pkg", "/data"]},
    {"command": "npx", "args": ["-y", "@scope/pkg@latest"]},
    {"command": "npx", "args": ["pkg@1"]},
    {"command": "npx", "args": ["--package=pkg", "bin"]},
    {"command": "npx", "args": ["-p", "pkg", "bin"]},
    {"command": "/usr/local/bin/npx", "args": ["pkg"]},
    {"command": "C:\\node\\npx.cmd", "args": ["pkg"]},
    {"command": "npm", "args": ["exec", "pkg"]},
    {"command": "pnpm", "args": ["dlx", "pkg"]},
    {"command": "bunx", "args": ["pkg"]},
    {"command": "uvx", "args": ["mcp-server-git"]},
    {"command": "uvx", "args": ["--from", "pkg", "bin"]},
    {"command": "uv", "args": ["tool", "run", "pkg"]},
    {"command": "pipx", "args": ["run", "pkg"]},
    {"type": "npm", "package": "@anthropic/mcp-server-filesystem", "args": ["/home/user/documents"]},
    {"package": "pkg@latest"},
    {"package": "pkg@^1.2.3"},
]
"""Servers that load whatever version of a package is the newest; the one of npm is the seed's own configuration."""
PINNED = [
    {"command": "npx", "args": ["-y", "@scope/pkg@1.2.3"]},
    {"command": "npx", "args": ["--package=pkg@1.2.3-rc.1", "bin"]},
    {"command": "uvx", "args": ["mcp-server-git==1.2"]},
    {"command": "uvx", "args": ["mcp-server-git@1.2"]},
    {"command": "node", "args": ["pkg"]},
    {"command": "npm", "args": ["start"]},
    {"command": "npx", "args": []},
    {"package": "@scope/pkg@1.2.3"},
    {"url": "http://a"},
]


@pytest.mark.parametrize("fields", FLOATING)
def test_a_package_without_a_version_runs_with_a_warning_and_is_an_error_if_asked_for(fields):
    """Requirement 31: `type: npm` needs no version, as the seed writes it."""
    server = read(**fields)
    field = "package" if "package" in fields else "args"

    assert "loads whatever version of" in server.warning
    with pytest.raises(ConfigError, match=rf"mcpServers\.s\.{field}: expected a package with its exact version"):
        read_servers({"mcpServers": {"s": fields}}, ENV, strict_packages=True)


@pytest.mark.parametrize("fields", PINNED)
def test_a_package_with_an_exact_version_has_no_warning(fields):
    assert "" == read(**fields).warning
    assert read_servers({"mcpServers": {"s": fields}}, ENV, strict_packages=True)


def test_the_reference_describes_every_key():
    reference = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    keys = reference.partition("## Every key of a server")[2].partition("\n## ")[0]

    known = {*_FIELDS, *_OTHER_CLIENT_FIELDS, "oauth", *TYPE_ALIASES.values()}

    assert known - {"disabled"} <= set(re.findall(r"`([a-zA-Z]+)`", keys))


def test_a_call_of_a_server_may_take_two_minutes_by_default():
    """Requirement 23."""
    assert 120.0 == read(command="a").timeout
