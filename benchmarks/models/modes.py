"""The modes of the benchmark: the ways in which a client can get calls from the same model."""

from collections.abc import Mapping
from typing import Final

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
    "refusal": {"dialect": "function_call", "prompt_style": "refusal"},
    "lazy_grammar": {"dialect": "function_call", "prompt_style": "own", "constrain": "llama-server-lazy"},
    "auto": {"tools": "auto"},
}
"""The arguments of `Client` in each mode; all others have their defaults."""
