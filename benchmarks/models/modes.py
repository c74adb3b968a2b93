"""The modes of the benchmark: the ways in which a client can get calls from the same model."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from benchmarks.models.loops import ReplySource
from fcshim import Client
from fcshim.events import JSON

NAIVE: Final = "naive"
"""A prompt and a regular expression written by hand (`naive.py`); every other mode is `fcshim.Client`."""

MODES: Mapping[str, Mapping[str, JSON]] = {
    "native": {"tools": "native", "max_retries": 0},
    NAIVE: {},
    "function_call": {"dialect": "function_call", "prompt_style": "own"},
    "hermes": {"dialect": "hermes", "prompt_style": "own"},
    "bare_json": {"dialect": "bare_json", "prompt_style": "own"},
    "fenced_json": {"dialect": "fenced_json", "prompt_style": "own"},
    "pythonic": {"dialect": "pythonic", "prompt_style": "own"},
    "example": {"dialect": "function_call", "prompt_style": "example"},
    "compact": {"dialect": "function_call", "prompt_style": "example", "tools_style": "compact"},
    "refusal": {"dialect": "function_call", "prompt_style": "refusal"},
    "lazy_grammar": {"dialect": "function_call", "prompt_style": "own", "constrain": "llama-server-lazy"},
    "auto": {"tools": "auto"},
    "default": {},
}
"""The arguments of `Client` in each mode; all others have their defaults.

`default` is what `fcshim serve` does: with what `fcshim doctor` has measured for the model on this machine, if it has.
"""

_EXAMPLE: Mapping[str, JSON] = {"tools": "prompt", "dialect": "function_call", "prompt_style": "example"}
MANY_TOOLS_MODES: Mapping[str, Mapping[str, JSON]] = {
    f"{name}-{listing}": {**_EXAMPLE, **settings, "tools_style": listing}
    for name, settings in {
        "all": {},
        "described4": {"max_tools": 4},
        "described8": {"max_tools": 8},
        "translated8": {"max_tools": 8, "tool_search": "translated"},
    }.items()
    for listing in ("signature", "compact", "schema")
}
"""The modes for 80 to 100 tools: all described or the most relevant ones, in each listing."""

_MEASURED = ("auto", "default")
"""Modes that what was measured for the model may change; the others state their settings."""


@asynccontextmanager
async def client_of(mode: str, url: str) -> AsyncIterator[ReplySource]:
    """Yield the client of a mode for the endpoint at `url`."""
    if mode == NAIVE:
        from benchmarks.models.naive import NaiveClient  # noqa: PLC0415 - json_repair is in the group `bench`

        async with NaiveClient(url) as naive:
            yield naive
    else:
        async with Client(url, measured=mode in _MEASURED, **{**MODES, **MANY_TOOLS_MODES}[mode]) as client:
            yield client
