"""Loads a GGUF file of the llama architecture: sizes, vocabulary, weights as float32.

Rule: a model that the runtime does not support is rejected here, with the metadata key that is the reason.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.extras import naming_extra

if TYPE_CHECKING:
    import gguf
    import numpy as np
    from numpy.typing import NDArray

TINY_MODEL = Path(__file__).parent / "tiny.gguf"
"""The model that ships with fcshim."""
_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """The dimensions and constants of the architecture."""

    context: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    rope_base: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class ModelVocabulary:
    """Tokens in GPT-2's byte alphabet, merges by rank, the ids of special tokens, and the id that ends a turn."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    special: frozenset[int]
    end: int


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The content of a model file."""

    name: str
    prompt_sha256: str
    sizes: ModelSizes
    vocabulary: ModelVocabulary
    weights: "dict[str, NDArray[np.float32]]"


def load_model(path: Path = TINY_MODEL) -> ModelFile:
    """Load a model file. Raises `ConfigError` if it or a package is missing, or if it is not a supported model."""
    reader = _open(path)
    for key, expected in (
        ("general.architecture", "llama"),
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "gpt-2"),
    ):
        if (found := _value(reader, key)) != expected:
            raise ConfigError(f"{path}: the embedded runtime needs {key} = {expected!r}, the file has {found!r}")
    return ModelFile(
        name=_value(reader, "general.name"),
        prompt_sha256=_value(reader, "fcshim.prompt_sha256", ""),
        sizes=_sizes(reader),
        vocabulary=_vocabulary(reader),
        weights=_weights(reader),
    )


def check_gguf(path: Path) -> None:
    """Raise `ConfigError` unless there is a file that begins like a GGUF file."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if start != _MAGIC:
        raise ConfigError(f"{path}: not a GGUF file: it begins with {start!r} instead of {_MAGIC!r}")


def require_packages(*packages: str) -> None:
    """Import the packages. Raises `MissingExtraError`."""
    with naming_extra("demo"):
        for package in packages:
            importlib.import_module(package)


def _open(path: Path) -> "gguf.GGUFReader":
    require_packages("numpy", "gguf")
    import gguf  # noqa: PLC0415  an optional package

    try:
        return gguf.GGUFReader(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable GGUF file ({error})") from error


def _value(reader: "gguf.GGUFReader", key: str, default: JSON = None) -> JSON:
    field = reader.get_field(key)
    return default if field is None else field.contents()


def _sizes(reader: "gguf.GGUFReader") -> ModelSizes:
    heads = _value(reader, "llama.attention.head_count")
    return ModelSizes(
        context=_value(reader, "llama.context_length"),
        width=_value(reader, "llama.embedding_length"),
        layers=_value(reader, "llama.block_count"),
        heads=heads,
        kv_heads=_value(reader, "llama.attention.head_count_kv", heads),
        rope_base=_value(reader, "llama.rope.freq_base", 10_000.0),
        epsilon=_value(reader, "llama.attention.layer_norm_rms_epsilon"),
    )


def _vocabulary(reader: "gguf.GGUFReader") -> ModelVocabulary:
    import gguf  # noqa: PLC0415  an optional package

    kinds = _value(reader, "tokenizer.ggml.token_type")
    merges = (merge.split(" ") for merge in _value(reader, "tokenizer.ggml.merges"))
    return ModelVocabulary(
        tokens=tuple(_value(reader, "tokenizer.ggml.tokens")),
        merges=tuple((left, right) for left, right in merges),
        special=frozenset(position for position, kind in enumerate(kinds) if kind == gguf.TokenType.CONTROL),
        end=_value(reader, "tokenizer.ggml.eos_token_id"),
    )


def _weights(reader: "gguf.GGUFReader") -> "dict[str, NDArray[np.float32]]":
    import gguf  # noqa: PLC0415  an optional package

    return {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
