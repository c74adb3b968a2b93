"""Lists of models in the API's form, written and read.

Rule: names start with `models/` in this form and nowhere else. Unknown properties of a model are omitted.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.json_text import write_json
from fcshim.events import JSON

_PREFIX = "models/"


class _GeminiModel(msgspec.Struct):
    name: str


class _GeminiModelList(msgspec.Struct):
    models: list[_GeminiModel]


def write_models(names: Sequence[str], created: int) -> bytes:  # noqa: ARG001  # contract
    """Write the list, always as one page."""
    return write_json({"models": [_model(name) for name in names]})


def write_model(name: str, created: int) -> bytes:  # noqa: ARG001  # contract
    """Write one model."""
    return write_json(_model(name))


def read_models(body: bytes) -> list[str]:
    """Return the names in a list; none if the body is something else."""
    try:
        return [model.name.removeprefix(_PREFIX) for model in msgspec.json.decode(body, type=_GeminiModelList).models]
    except (ValueError, RecursionError):
        return []


def _model(name: str) -> dict[str, JSON]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": _PREFIX + name, "displayName": name, "supportedGenerationMethods": methods}
