"""The sections `[upstreams.NAME]` of the settings file: the endpoints behind one proxy.

Rule: a key or header is written as `env:VARIABLE`, so that the file holds no secret; a setting that a section omits has
its general value. No address or error shows a key.
"""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config.secret import Secret
from fcshim.errors import ConfigError
from fcshim.events import JSON

MAX_UPSTREAMS = 64
"""Sections in one file. Every request for the list of models asks all of them."""
DIRECT = "direct"
"""The value of `proxy` for no egress proxy, whatever the environment says."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding", "accept-encoding"}
)
"""Headers that fcshim sets for each request."""
_ENV = "env:"

_Timeout = Annotated[float, Meta(gt=0, le=86_400)]


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One endpoint; None takes the general setting.

    `proxy` is the URL of an egress proxy, `direct` for none, None for what the environment says. `ca_file` holds the
    certificates of the authorities that may sign for the endpoint. `max_concurrent` requests run at once, 0 for no
    limit. After `failures` in a row the endpoint rests for `pause` seconds; then one request probes it.
    """

    url: str
    api: UpstreamApi = "openai"
    key: Secret | None = None
    headers: dict[str, Secret] = {}
    proxy: Secret | None = None
    ca_file: str | None = None
    connect_timeout: _Timeout | None = None
    first_chunk_timeout: _Timeout | None = None
    chunk_timeout: _Timeout | None = None
    max_concurrent: Annotated[int, Meta(ge=0)] = 0
    failures: Annotated[int, Meta(ge=1, le=1000)] = 3
    pause: Annotated[float, Meta(gt=0, le=3600)] = 10.0
    tools: str | None = None
    constrain: str | None = None
    forward_client_key: bool | None = None


def load_upstreams(tables: JSON, env: Mapping[str, str], location: str) -> dict[str, UpstreamConfig]:
    """Load the sections; `location` begins each message. Raises `ConfigError`."""
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f"{location}upstreams: expected sections such as [upstreams.local], got {tables!r:.80}")
    if len(tables) > MAX_UPSTREAMS:
        raise ConfigError(f"{location}upstreams: at most {MAX_UPSTREAMS} sections are allowed, got {len(tables)}")
    return {name: _load_one(name, table, env, f"{location}[upstreams.{name}]") for name, table in tables.items()}


def check_name(name: str, location: str) -> None:
    """Raise `ConfigError` unless `name` can name a section."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{location}: expected a name of letters, digits, '.', '_' and '-', at most 64 characters")


def _load_one(name: str, table: JSON, env: Mapping[str, str], location: str) -> UpstreamConfig:
    check_name(name, location)
    if not isinstance(table, dict):
        raise ConfigError(f"{location}: expected a table with the key url, got {type(table).__name__}")
    filled = {key: _from_env(value, env, f"{location}: {key}") for key, value in table.items()}
    if isinstance(table.get("headers"), dict):
        filled["headers"] = {
            key: _from_env(value, env, f"{location}: headers: {key}") for key, value in table["headers"].items()
        }
    try:
        upstream = msgspec.convert(filled, UpstreamConfig, dec_hook=_secret)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{location}: {error}") from None
    for header in upstream.headers:
        if not _HEADER_NAME.fullmatch(header) or header.lower() in _OWN_HEADERS:
            raise ConfigError(
                f"{location}: headers: {header!r:.100} cannot be set; expected the name of another header"
            )
    return upstream


def _from_env(value: JSON, env: Mapping[str, str], location: str) -> JSON:
    """Return the value of the variable that `value` names, or `value` if it names none."""
    if not isinstance(value, str) or not value.startswith(_ENV):
        return value
    variable = value.removeprefix(_ENV)
    if not env.get(variable):
        raise ConfigError(f"{location}: expected the environment variable {variable!r:.80} to be set")
    return env[variable]


def _secret(wanted: type, value: JSON) -> Secret:
    """Make a `Secret`; msgspec calls this for the only type that it does not support."""
    assert wanted is Secret
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value.strip():
        raise ValueError("expected printable ASCII characters, as an HTTP header can carry them, or 'env:VARIABLE'")
    return Secret(value)
