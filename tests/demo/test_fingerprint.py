import shutil
from pathlib import Path

import pytest

from fcshim.demo import fingerprint
from fcshim.demo.gguf_file import ModelFile
from fcshim.prompt import render
from fcshim.resources import resource_dir


def test_the_committed_model_was_trained_on_the_current_prompts(model_file: ModelFile) -> None:
    """If this fails, a prompt template has changed: train the model again (see fcshim/demo/recipe)."""
    assert model_file.prompt_sha256 == fingerprint.prompt_sha256()


@pytest.mark.parametrize("name", ["system", "call", "result"])
def test_a_changed_template_changes_the_hash(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.prompt_sha256()
    shutil.copytree(resource_dir("templates"), tmp_path, dirs_exist_ok=True)
    with (tmp_path / "function_call" / f"{name}.jinja").open("a") as template:
        template.write(" ")
    monkeypatch.setattr(render, "resource_dir", lambda _: tmp_path)

    assert fingerprint.prompt_sha256() != before
