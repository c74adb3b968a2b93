"""Weights of real models, and BFCL's cases, for tests and benchmarks: where they are, and how they are fetched.

They are in the folder that FCSHIM_MODELS names, or else in `.cache/models`; `make models` puts them there.
"""

import os
from pathlib import Path

import pytest

_CACHE = Path(__file__).parents[2] / ".cache" / "models"


def folder() -> Path:
    """Return the folder of the weights."""
    return Path(os.environ.get("FCSHIM_MODELS") or _CACHE)


def find_model(name: str) -> Path:
    """Return a file or folder of weights or cases; without it, the test is skipped, and fails in CI."""
    path = folder() / name
    if not path.exists():
        problem = f"{path} is missing: `make models` fetches it, or FCSHIM_MODELS names a folder that has it"
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    return path
