"""The modes of the benchmark: the ways in which a client can get calls from the same model."""

from collections.abc import Mapping
from typing import Final

from fcshim.events import JSON

NAIVE: Final = "naive"
"""A prompt and a regular expression written by hand (`naive.py`); every other mode is `fcshim.Client`."""

MODES: Mapping[str, Mapping[str, JSON]] = {
    "native": {"tools": "native", "max_retries": 0},
    NAIVE: {},
    "function_call": {"dialect": "function_call"},
    "hermes": {"dialect": "hermes"},
    "bare_json": {"dialect": "bare_json"},
    "fenced_json": {"dialect": "fenced_json"},
    "pythonic": {"dialect": "pythonic"},
    "lazy_grammar": {"dialect": "function_call", "constrain": "llama-server-lazy"},
    "auto": {"tools": "auto"},
}
"""The arguments of `Client` in each mode; all others have their defaults."""
