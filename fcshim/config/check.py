"""Checks a TOML file of settings and finds all mistakes, each with its line.

Rule: every setting is loaded alone, by the code that loads the file, so that both always agree.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from fcshim.config.load import load_document, parse_toml, read_file
from fcshim.config.values import Config
from fcshim.errors import ConfigError
from fcshim.events import JSON

_MAX_MISTAKES = 100
_MAX_LOCATED = 50_000
"""Characters of a file whose mistakes get their line: finding it is quadratic."""
_Key = tuple[str, ...]
"""The keys from the document's root to a setting."""


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
