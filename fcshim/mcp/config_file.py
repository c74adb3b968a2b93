"""The servers file: `{"mcpServers": {name: {...}}}`, as desktop clients write it.

Rule: every error names the file, the server, the field and what was expected; `${VAR}` and `${VAR:-default}` are
replaced from the environment in every string, and a variable that is not set disables its server only. Fields of other
clients are ignored, unless they look like a misspelt field of ours.
"""

import difflib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from urllib.parse import urlsplit

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.mcp.settings import (
    DEFAULT_TIMEOUT,
    HttpTransport,
    McpServerConfig,
    NpmTransport,
    OAuthClient,
    ServerTransport,
    StdioTransport,
    UnusableTransport,
)

TYPE_ALIASES = {
    "stdio": "stdio",
    "local": "stdio",
    "npm": "npm",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
}
"""The names of transports that are in use, and ours for them."""
_IMPLIED_TYPES = {"command": "stdio", "package": "npm", "url": "http"}
"""The type that a field implies if there is no `type`."""
_FIELDS = (
    "type",
    "command",
    "package",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "oauth",
    "enabled",
    "timeout",
    "allow",
    "trust",
    "category",
    "cache",
    "handshake",
)
_OTHER_CLIENT_FIELDS = frozenset({"disabled", "autoApprove", "alwaysAllow", "description", "name", "tools", "version"})
"""Fields of other clients; `disabled` is honoured, the others have no effect."""
_EXPECTED_TRUST = '"annotations", which lets tools run that the server marks as read-only'
_OAUTH_FIELDS = ("client_id", "client_secret", "redirect_port", "auth_method")
_OAUTH_ALIASES = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "callbackPort": "redirect_port",
    "redirectPort": "redirect_port",
    "token_endpoint_auth_method": "auth_method",
}
"""Names of other clients for the fields of `oauth`; other fields of it have no effect."""
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PACKAGE = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(?:@[0-9A-Za-z.+*^~<>=-]+)?")
"""An npm package of the registry, with or without a version: no option, path or URL."""
_EXACT_VERSIONS = {
    "npm": re.compile(r".+@[0-9]+\.[0-9]+\.[0-9]++[0-9A-Za-z.+-]*"),
    "PyPI": re.compile(r".+(?:==|@)[0-9][0-9A-Za-z.!+-]*"),
}
"""By registry, packages with an exact version: a later one may be hostile, as postmark-mcp 1.0.16 was."""
_RUNNERS: dict[tuple[str, ...], str] = {
    ("npx",): "npm",
    ("npm", "exec"): "npm",
    ("pnpm", "dlx"): "npm",
    ("yarn", "dlx"): "npm",
    ("bunx",): "npm",
    ("bun", "x"): "npm",
    ("uvx",): "PyPI",
    ("uv", "tool", "run"): "PyPI",
    ("pipx", "run"): "PyPI",
}
"""The commands that load a package and run it, with their registries."""
_PACKAGE_OPTIONS = ("-p", "--package", "--from", "--spec")
"""The options of these commands that name the package, in place of the first operand."""
_SIZE_LIMIT = 2**20
"""Bytes of a servers file; hundreds of servers take some ten thousand."""


def load_servers(
    path: Path | str, env: Mapping[str, str], *, strict_packages: bool = False
) -> tuple[McpServerConfig, ...]:
    """Read the enabled servers, in the file's order. Raises `ConfigError`.

    With `strict_packages`, a package without its exact version is an error; else it is a warning.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > _SIZE_LIMIT:
        raise ConfigError(f"{path}: larger than {_SIZE_LIMIT} bytes; expected a JSON file of MCP servers")
    try:
        text = data.decode("utf-8-sig")  # editors on Windows may write a byte order mark
        document = json.loads(text, object_pairs_hook=_unique_members)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    return read_servers(document, env, str(path), strict_packages=strict_packages)


def _unique_members(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Return the members of an object. Raises `ValueError` for a name that comes twice: one would be lost unseen."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice[:100]!r} comes twice in one object")
    return members


def read_servers(
    document: JSON, env: Mapping[str, str], location: str = "mcpServers", *, strict_packages: bool = False
) -> tuple[McpServerConfig, ...]:
    """Read the enabled servers from a decoded file. Raises `ConfigError` that begins with `location`."""
    listed = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise ConfigError(f'{location}: expected {{"mcpServers": {{name: {{...}}}}}}, got {_excerpt(document)}')
    read = [
        _ServerFields(fields, name, env, location, strict_packages=strict_packages).read_server()
        for name, fields in listed.items()
    ]
    return tuple(server for server in read if server is not None)


class _ServerFields:
    """The fields of one server, read one by one."""

    def __init__(
        self, fields: JSON, name: str, env: Mapping[str, str], location: str, *, strict_packages: bool
    ) -> None:
        self._name, self._env, self._location = name, env, location
        self._strict_packages = strict_packages
        if not name.strip() or ":" in name:
            raise self._error(None, "a name without colon, and not empty", name)
        if not isinstance(fields, dict):
            raise self._error(None, "an object of fields", fields)
        self._fields: dict[str, JSON] = fields
        self._unset: list[str] = []

    def read_server(self) -> McpServerConfig | None:
        """Return the server; None if it is disabled, whatever its other fields are."""
        enabled = self._read_typed("enabled", bool, "true or false", default=True)
        if not enabled or self._read_typed("disabled", bool, "true or false", default=False):
            return None
        self._check_field_names()
        transport = self._read_transport()
        server = McpServerConfig(
            name=self._name,
            transport=transport,
            warning=self._version_warning(transport),
            timeout=self._read_seconds("timeout", DEFAULT_TIMEOUT),
            allow=self._read_strings("allow"),
            trust="annotations" if self._read_word("trust", "(?:annotations)?", _EXPECTED_TRUST) else "",
            category=self._read_word("category", r"[\w-]{0,40}", "a word of at most 40 letters"),
            cache=self._read_seconds("cache", 0.0, zero=True),
            handshake=self._read_typed("handshake", bool, "true or false", default=False),
        )
        if not self._unset:
            return server
        names = ", ".join(dict.fromkeys(self._unset))
        reason = f"its settings need the environment variable {names}, which is not set"
        return msgspec.structs.replace(server, transport=UnusableTransport(reason=reason))

    def _read_transport(self) -> ServerTransport:
        match self._read_type():
            case "stdio":
                return StdioTransport(
                    command=self._read_string("command", "the program to run"),
                    args=self._read_strings("args"),
                    env=self._read_string_map("env"),
                    cwd=self._read_string("cwd", "a folder") if "cwd" in self._fields else None,
                )
            case "npm":
                package = self._read_string("package", "an npm package")
                if not self._unset and not _PACKAGE.fullmatch(package):
                    raise self._error("package", "a package of npm, like @scope/name@1.2.3", package)
                return NpmTransport(
                    package=package,
                    args=self._read_strings("args"),
                    env=self._read_string_map("env"),
                    cwd=self._read_string("cwd", "a folder") if "cwd" in self._fields else None,
                )
            case http_type:
                oauth = bool(self._read_typed("oauth", bool | dict, "true, false or an object", default=False))
                return HttpTransport(
                    url=self._read_url(),
                    headers=self._read_headers(),
                    sse=http_type == "sse",
                    oauth=oauth,
                    oauth_client=self._read_oauth_client(),
                )

    def _read_type(self) -> str:
        if "type" not in self._fields:
            for field, implied in _IMPLIED_TYPES.items():
                if field in self._fields:
                    return implied
            raise self._error("type", f"one of {', '.join(TYPE_ALIASES)}, or a command, package or url")
        value = self._fields["type"]
        if not isinstance(value, str) or value not in TYPE_ALIASES:
            raise self._error("type", f"one of {', '.join(TYPE_ALIASES)}", value)
        return TYPE_ALIASES[value]

    def _version_warning(self, transport: ServerTransport) -> str:
        """Return a warning for a server that loads whatever version of a package is the newest at its start."""
        field, runner, registry, package = _loaded_package(transport)
        if self._unset or not package or _EXACT_VERSIONS[registry].fullmatch(package):
            return ""
        if self._strict_packages:
            raise self._error(field, "a package with its exact version, like name@1.2.3 (--strict-packages)", package)
        bare = package[0] + package[1:].partition("@")[0]
        return f"{runner} loads whatever version of {bare} is the newest; name one: {bare}@1.2.3"

    def _read_url(self) -> str:
        url = self._read_string("url", "an http or https URL")
        if self._unset:
            return url
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise self._error("url", "an http or https URL", self._fields["url"])
        return url

    def _read_headers(self) -> dict[str, str]:
        headers = self._read_string_map("headers")
        for name, value in headers.items():
            # RFC 9110: a field's name is a token.
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.isascii() or not value.isprintable():
                raise self._error("headers", f"{name!r} to be a header's name, and its value printable ASCII")
        return headers

    def _read_oauth_client(self) -> OAuthClient | None:
        written = self._fields.get("oauth")
        named = (
            {_OAUTH_ALIASES.get(key, key): value for key, value in written.items()} if isinstance(written, dict) else {}
        )
        if "client_id" not in named:
            return None
        values = {
            name: self._expand(value) if isinstance(value, str) else value
            for name, value in named.items()
            if name in _OAUTH_FIELDS
        }
        try:
            return msgspec.convert(values, OAuthClient)
        except msgspec.ValidationError as error:
            raise self._error("oauth", f"{', '.join(_OAUTH_FIELDS)} of the registered client: {error}") from None

    def _read_string(self, field: str, expected: str) -> str:
        if field not in self._fields:
            raise self._error(field, expected)
        value = self._fields[field]
        if not isinstance(value, str) or not value:
            raise self._error(field, f"{expected}, as a string", value)
        expanded = self._expand(value)
        if self._unset:
            return value
        if not expanded or "\0" in expanded:
            raise self._error(field, f"{expected}; {value!r} expands to an empty text or to one with a NUL")
        return expanded

    def _read_word(self, field: str, pattern: str, expected: str) -> str:
        value = self._fields.get(field, "")
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self._error(field, expected, value)
        return value

    def _read_strings(self, field: str) -> tuple[str, ...]:
        values = self._fields.get(field, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self._error(field, "a list of strings", values)
        return tuple(map(self._expand, values))

    def _read_string_map(self, field: str) -> dict[str, str]:
        values = self._fields.get(field, {})
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise self._error(field, "an object of strings", list(values) if isinstance(values, dict) else values)
        return {key: self._expand(value) for key, value in values.items()}

    def _read_seconds(self, field: str, default: float, *, zero: bool = False) -> float:
        value = self._fields.get(field, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not (value > 0 or (zero and value == 0)):
            raise self._error(field, "a number of seconds" + ("" if zero else " above 0"), value)
        return float(value)

    def _read_typed(self, field: str, kind: type | UnionType, expected: str, *, default: JSON) -> JSON:
        value = self._fields.get(field, default)
        if not isinstance(value, kind):
            raise self._error(field, expected, value)
        return value

    def _expand(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name in self._env:
                return self._env[name]
            if default is None:
                self._unset.append(name)  # it disables this server only
            return default or ""

        return _VARIABLE.sub(value, text)

    def _check_field_names(self) -> None:
        for field in self._fields:
            if field in _FIELDS or field in _OTHER_CLIENT_FIELDS:
                continue
            similar = difflib.get_close_matches(field, _FIELDS, n=1, cutoff=0.75)
            if similar:
                raise self._error(field, f"a known field; did you mean {similar[0]}?")

    def _error(self, field: str | None, expected: str, got: JSON = msgspec.UNSET) -> ConfigError:
        place = f"{self._location}: mcpServers.{self._name}" + (f".{field}" if field else "")
        return ConfigError(f"{place}: expected {expected}" + ("" if got is msgspec.UNSET else f", got {_excerpt(got)}"))


def _loaded_package(transport: ServerTransport) -> tuple[str, str, str, str]:
    """Return the field that names a package, what loads it, its registry and the package; empty texts for none."""
    if isinstance(transport, NpmTransport):
        return "package", "npx", "npm", transport.package
    if isinstance(transport, StdioTransport):
        program = re.split(r"[/\\]", transport.command)[-1].lower()
        words = (re.sub(r"\.(?:cmd|exe)$", "", program), *transport.args)
        for command, registry in _RUNNERS.items():
            if words[: len(command)] == command:
                return "args", " ".join(command), registry, _package_operand(words[len(command) :])
    return "", "", "", ""


def _package_operand(words: Sequence[str]) -> str:
    """Return the package among the arguments of a runner: what an option names, else the first operand."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        if option in _PACKAGE_OPTIONS:
            return value if equals else following
        if not word.startswith("-"):
            return word
    return ""


def _excerpt(value: JSON) -> str:
    """Quote a value; of an object, which could hold a secret, only the field names."""
    if isinstance(value, dict):
        return f"an object with {', '.join(list(value)[:5]) or 'no fields'}"
    return repr(value)[:60]
