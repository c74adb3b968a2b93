import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from fcshim.demo.gguf_file import TINY_MODEL, ModelFile, load_model, require_packages
from fcshim.errors import ConfigError


def test_the_committed_model_is_small_and_complete(model_file: ModelFile) -> None:
    sizes, weights = model_file.sizes, model_file.weights

    assert TINY_MODEL.stat().st_size < 1_700_000
    assert model_file.name == "fcshim-tiny"
    assert weights["token_embd.weight"].shape == (len(model_file.vocabulary.tokens), sizes.width)
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}
    assert sizes.context == 4096


def test_the_vocabulary_has_its_special_tokens(model_file: ModelFile) -> None:
    vocabulary = model_file.vocabulary

    assert {vocabulary.tokens[i] for i in vocabulary.special} == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
    assert vocabulary.tokens[vocabulary.end] == "<|im_end|>"


def test_no_merge_contains_a_space(model_file: ModelFile) -> None:
    assert [merge for merge in model_file.vocabulary.merges if "Ġ" in "".join(merge)] == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.gguf"):
        load_model(tmp_path / "missing.gguf")


def test_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_bytes(b"not a model at all, but long enough to be read as a header")

    with pytest.raises(ConfigError, match="not a readable GGUF file"):
        load_model(path)


def test_a_model_of_another_architecture_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_name("other")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(ConfigError, match=r"general\.architecture = 'llama', the file has 'mamba'"):
        load_model(path)


def test_the_error_for_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)

    with pytest.raises(ConfigError, match=r"'gguf'.*pip install 'fcshim\[demo\]'"):
        load_model()


def test_installed_packages_are_no_error() -> None:
    require_packages("numpy", "gguf")
