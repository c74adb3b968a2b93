"""Loads a `Config` from a TOML file, the environment and flags, where later sources win; finds all mistakes of a file.

Rule: an error names the source, the setting, what was expected and the nearest known name. The value of a secret is
never shown. To find all mistakes, every setting is loaded alone, by the code that loads the file.
"""

import difflib
import itertools
import logging
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from fcshim.config.model_settings import ModelOverrides
from fcshim.config.secret import Secret
from fcshim.config.store_address import parse_store_address
from fcshim.config.table import TABLES, Setting, model_settings, settings
from fcshim.config.upstreams import load_upstreams
from fcshim.config.values import Config, check_address
from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.files import read_limited
from fcshim.pipeline.backends import get_backend

FILE_VARIABLE = "FCSHIM_CONFIG"
"""The variable that names the TOML file. It is not a setting, since the file cannot name itself."""
NOT_NAMED = "http://not-named.invalid"
"""As the default of `upstream`, stands for an endpoint that no flag, variable or file names."""
_OTHER_VARIABLES = frozenset({"FCSHIM_MCP_KEY"})
"""Variables that single commands read."""

_OF_ONE_UPSTREAM = frozenset({"upstream", "upstream_api", "upstream_key"})
"""Settings that each section of several upstreams has for itself."""

_MAX_FILE = 2**20
"""Bytes of a file; a section for each of hundreds of models takes some ten thousand."""
_MAX_BITS = 64
_MAX_MISTAKES = 100
_MAX_LOCATED = 50_000
"""Characters of a file whose mistakes get their line: finding it is quadratic."""
_Key: TypeAlias = tuple[str, ...]
"""The keys from the document's root to a setting."""

logger = logging.getLogger("fcshim.config")

FlagValue: TypeAlias = str | bool | list[str]
"""A value from the command line."""

_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def load_config(
    flags: Mapping[str, FlagValue] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
    defaults: Mapping[str, JSON] | None = None,
) -> Config:
    """Load a `Config` from defaults, then `file`, then `env`, then `flags` (by setting name; only those that were set).

    `defaults` replace those of `Config`, and are not validated.

    Raises `ConfigError`.
    """
    values: dict[str, JSON] = {}
    if file is not None:
        values = _from_document(parse_toml(read_file(file), file), f"{file}: ", env or {})
    later = _from_env(env or {})
    known = {setting.name: setting for setting in settings()}
    for name, value in (flags or {}).items():
        _refuse_unknown((name,), known, "flags")
        later[name] = _parse_value(known[name], value, known[name].flag)
    config = Config(**{**(defaults or {}), **_merge(values, later)})
    _check(config)
    return config


def load_document(document: Mapping[str, JSON], env: Mapping[str, str]) -> Config:
    """Load a `Config` from the document of a TOML file alone. Raises `ConfigError`."""
    config = Config(**_merge(_from_document(document, "", env), {}))
    _check(config)
    return config


def _merge(values: dict[str, JSON], later: dict[str, JSON]) -> dict[str, JSON]:
    """Return all values; an `upstream` of the environment or the flags takes the place of the file's sections."""
    if values.get("upstreams"):
        misplaced = sorted(_OF_ONE_UPSTREAM & {*values, *later})
        if "upstream" in later:
            logger.warning("--upstream takes the place of the file's sections [upstreams]")
            return {**values, **later, "upstreams": {}}
        if misplaced:
            raise ConfigError(
                f"{misplaced[0]}: expected it in the sections [upstreams.NAME], of which the file has some"
            )
    return {**values, **later}


def read_file(file: Path) -> str:
    """Read a TOML file. Raises `ConfigError`."""
    try:
        data = read_limited(file, _MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            raise ConfigError(f"{file}: expected at most {_MAX_FILE} bytes of TOML")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error


def parse_toml(text: str, file: Path) -> dict[str, JSON]:
    """Parse the text of a file. Raises `ConfigError`."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        raise ConfigError(f"{file} is not TOML: {error}") from error
    if _has_large_number(document):
        raise ConfigError(f"{file} is not TOML: expected whole numbers of 64 bits")
    return document


def _has_large_number(value: JSON) -> bool:
    """Return whether a whole number needs more than 64 bits; Python cannot even show one of thousands of digits."""
    match value:
        case int():
            return value.bit_length() > _MAX_BITS
        case dict():
            return any(map(_has_large_number, value.values()))
        case list():
            return any(map(_has_large_number, value))
    return False


def _from_document(document: Mapping[str, JSON], location: str, env: Mapping[str, str]) -> dict[str, JSON]:
    """Return the settings of a document; `location` begins each message."""
    rows = dict(document)
    known = {setting.name: setting for setting in settings()}
    tables = rows.pop("models", {})
    sections = rows.pop("upstreams", None)
    _refuse_unknown(rows, [*known, *sorted(TABLES)], location.removesuffix(": "))
    values = {name: _convert(known[name], value, location + name, strict=True) for name, value in rows.items()}
    models = _models(tables, location)
    upstreams = {} if sections is None else load_upstreams(sections, env, location)
    for pattern, row in models.items():
        names = [row.upstream] if isinstance(row.upstream, str) else row.upstream or ()
        for name in names:
            if name not in upstreams:
                raise ConfigError(
                    f'{location}[models."{pattern}"]: there is no section [upstreams.{name:.80}]. '
                    f"Known are: {', '.join(upstreams) or 'none'}"
                )
    return {**values, "models": models, "upstreams": upstreams}


def _models(tables: JSON, location: str) -> dict[str, ModelOverrides]:
    if not isinstance(tables, dict):
        raise ConfigError(f'{location}models: expected tables such as [models."qwen*"], got {tables!r:.80}')
    return {pattern: _overrides(table, f'{location}[models."{pattern}"]') for pattern, table in tables.items()}


def _overrides(table: JSON, location: str) -> ModelOverrides:
    if not isinstance(table, dict):
        raise ConfigError(f"{location}: expected a table, got {table!r:.80}")
    known = {setting.name: setting for setting in model_settings()}
    _refuse_unknown(table, [*known, "upstream_model", "upstream"], location)
    special = {name: value for name, value in table.items() if name not in known}
    own = {
        name: _convert(known[name], value, f"{location}: {name}", strict=True)
        for name, value in table.items()
        if name in known
    }
    try:
        return msgspec.convert({**special, "settings": own}, ModelOverrides)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{location}: {error}") from error


def _from_env(env: Mapping[str, str]) -> dict[str, JSON]:
    """Read the variables that are set. An empty one counts as unset; an unknown `FCSHIM_` one is only reported.

    Variables are set for many programs and versions at once, as in a container's image.
    """
    known = {setting.env: setting for setting in settings()}
    given = {name: text for name, text in env.items() if name.startswith("FCSHIM_") and name != FILE_VARIABLE}
    for name in given.keys() - known.keys() - _OTHER_VARIABLES:
        logger.warning("%s", _describe_unknown(name, list(known), "environment"))
    return {
        known[name].name: _parse_value(known[name], text, name)
        for name, text in given.items()
        if text and name in known
    }


def _parse_value(setting: Setting, value: FlagValue, location: str) -> JSON:
    """Parse a value from a variable or flag; the text of a list is separated by commas."""
    parsed: JSON = value
    if isinstance(value, str) and setting.kind == "list":
        parsed = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, str) and setting.kind == "switch":
        parsed = _SWITCHES.get(value.lower(), value)
    return _convert(setting, parsed, location, strict=False)


def _convert(setting: Setting, value: JSON, location: str, *, strict: bool) -> JSON:
    """Validate one value; `strict` for TOML, whose values have types."""
    try:
        return msgspec.convert(value, setting.type, strict=strict, dec_hook=_secret)
    except msgspec.ValidationError as error:
        problem = str(error) if setting.secret else f"expected {setting.expected}, got {value!r:.80}"
        raise ConfigError(f"{location}: {problem}") from error


def _secret(wanted: type, value: JSON) -> Secret:
    """Make a `Secret`; msgspec calls this for the only type that it does not support."""
    assert wanted is Secret
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value.strip():
        raise ValueError("expected a key of printable ASCII characters, as an HTTP header can carry it")
    return Secret(value)


def check_worker_settings(config: Config) -> None:
    """Raise `ConfigError` if several processes cannot serve these settings."""
    if config.workers == 1:
        return
    if config.inspect:
        raise ConfigError(
            f"inspect shows the requests of one process: expected workers = 1 beside it, got {config.workers}"
        )
    for name, section in config.upstreams.items():
        if 0 < section.max_concurrent < config.workers:
            raise ConfigError(
                f"[upstreams.{name}]: max_concurrent: expected at least one for each of the {config.workers} workers"
            )


def _check(config: Config) -> None:
    """Validate what the types cannot express."""
    check_address(config.upstream, "upstream")
    parse_store_address(config.store)
    config.check_names()
    _check_sections(config)
    for pattern, row in config.models.items():
        try:
            config.merged_with(row).check_names()
        except ConfigError as error:
            raise ConfigError(f'[models."{pattern}"]: {error.message}') from error
    if config.constrain not in ("auto", "off"):
        get_backend(config.constrain)


def _check_sections(config: Config) -> None:
    known = {setting.name: setting for setting in settings()}
    for name, section in config.upstreams.items():
        check_address(section.url, f"[upstreams.{name}]: url")
        if section.tools is not None:
            _convert(known["tools"], section.tools, f"[upstreams.{name}]: tools", strict=True)
        if section.constrain not in (None, "auto", "off"):
            get_backend(section.constrain)


def _refuse_unknown(given: Iterable[str], known: Iterable[str], location: str) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            raise ConfigError(_describe_unknown(name, names, location))


def _describe_unknown(name: str, names: list[str], location: str) -> str:
    similar = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean {similar[0]!r}?" if similar else f". Known are {', '.join(names)}"
    return f"{location}{': ' if location else ''}there is no setting {name!r}{hint}"


def check_file(file: Path, env: Mapping[str, str]) -> list[str]:
    """Return the mistakes of a file as `FILE:LINE: what is wrong`; an empty list if it is valid.

    `env` has the variables to which sections of upstreams refer. A file that cannot be read raises `ConfigError`. After
    a syntax error nothing else is checked.
    """
    text = read_file(file)
    try:
        document = parse_toml(text, file)
    except ConfigError as error:
        return [error.message]
    found = ((key, _mistake(key, part, env)) for key, part in _parts(document))
    mistakes = list(itertools.islice(((key, message) for key, message in found if message), _MAX_MISTAKES))
    if not mistakes:
        message = _mistake((), document, env)
        return [f"{file}: {message}"] if message else []
    lines = _lines(text) if len(text) <= _MAX_LOCATED else {}
    return [f"{file}:{lines.get(key, 1)}: {message}" for key, message in mistakes]


def _parts(document: dict[str, JSON]) -> Iterator[tuple[_Key, dict[str, JSON]]]:
    """Yield each setting with a document that holds nothing else but what the setting refers to."""
    sections = document.get("upstreams")
    names = sections if isinstance(sections, dict) else ()
    # the rows of models refer to sections by name, so these are valid ones
    named = {"upstreams": {name: {"url": "http://127.0.0.1"} for name in names}} if names else {}
    for name, value in document.items():
        if name == "upstreams" and isinstance(value, dict) and value:
            yield from (((name, section), {name: {section: table}}) for section, table in value.items())
            continue
        if name != "models" or not isinstance(value, dict):
            yield (name,), {name: value}
            continue
        for pattern, table in value.items():
            if not isinstance(table, dict):
                yield (name, pattern), {name: {pattern: table}}
                continue
            for key, each in table.items():
                yield (name, pattern, key), {name: {pattern: {key: each}}, **named}


def _mistake(key: _Key, part: dict[str, JSON], env: Mapping[str, str]) -> str:
    """Return what is wrong with the one setting of a document, with its name; empty if nothing is."""
    try:
        check_worker_settings(load_document(part, env))
    except ConfigError as error:
        if not key or key[0] == "upstreams":
            return error.message
        table = f'[models."{key[1]}"]: ' if len(key) > 1 else ""
        problem = error.message.removeprefix(table).removeprefix(table)  # both the loader and its checks name the table
        return f"{table}{problem if problem.startswith(key[-1]) else f'{key[-1]}: {problem}'}"
    return ""


def _lines(text: str) -> dict[_Key, int]:
    """Return the line where each setting begins.

    The text is parsed up to each line. Where that succeeds, a statement has ended; the keys that are new began after
    the end of the one before. This is quadratic, but files of settings are short, and it needs no parser of our own.
    """
    found: dict[_Key, int] = {}
    start = 1
    lines = text.splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        for key, _ in _parts(document):
            found.setdefault(key, start)
        start = number + 1
    return found
