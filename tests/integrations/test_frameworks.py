"""The plugins for frameworks: the tests of `frameworks/` run in the environment of each (`make test-integrations`)."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fcshim.demo.gguf_file import TINY_MODEL
from tests.demo.served import Addresses, served_demo
from tests.integrations.framework_environments import ENGINES, ENVIRONMENTS, ROOT, missing, python, version

FOLDER = Path(__file__).parent / "frameworks"
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
PLUGINS = ROOT / "fcshim" / "integrations"
MAX_LINES = 150
_SECONDS = 600.0
"""Limit for one program; LangChain's and vLLM's take half a minute on an idle core."""


def run(name: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    if reason := missing(name):
        pytest.skip(reason)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [python(name), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)


@pytest.mark.parametrize("name", [*ENVIRONMENTS, *ENGINES])
def test_the_framework_calls_tools(name: str) -> None:
    """Its tests run without the configuration of this project, which the environment has no packages for."""
    options = ["-q", "--noconftest", "-c", os.devnull, "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    options = options[: None if name == "langchain" else -2]
    done = run(name, "-m", "pytest", *options, FOLDER / f"check_{name}.py")

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1] or name == "langchain"  # its suite skips what a model cannot


@pytest.fixture(scope="module")
def addresses() -> Iterator[Addresses]:
    with served_demo() as found:
        yield found


CONVERT = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
loaded = AutoModelForCausalLM.from_pretrained(sys.argv[1], gguf_file=sys.argv[2])
del loaded.config.quantization_config
plain = AutoModelForCausalLM.from_config(loaded.config)
plain.load_state_dict(loaded.state_dict())
plain.save_pretrained(sys.argv[3])
AutoTokenizer.from_pretrained(sys.argv[1], gguf_file=sys.argv[2]).save_pretrained(sys.argv[3])
"""
"""Writes the model of a GGUF file as a folder that transformers loads."""


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_examples_of_the_page_run(name: str, addresses: Addresses, tmp_path: Path) -> None:
    """They print what the embedded model answers; it stands at the address, or in the file, of the example."""
    section = PAGE.split(f"<!-- {name} -->")[1].split("<!--")[0].replace("http://127.0.0.1:8080", addresses.upstream)
    section = section.replace("model.gguf", str(TINY_MODEL))
    if "Qwen/" in section:
        folder = tmp_path / "fcshim-tiny"
        converted = run(name, "-c", CONVERT, TINY_MODEL.parent, TINY_MODEL.name, folder)
        assert 0 == converted.returncode, converted.stderr
        section = re.sub(r"Qwen/[\w.-]+", str(folder), section)
    blocks = re.findall(r"```(python|yaml)\n(.*?)```", section, re.DOTALL)
    (tmp_path / "extra-openai-models.yaml").write_text(dict(blocks).get("yaml", ""), encoding="utf-8")
    for code in (code for language, code in blocks if language == "python"):
        done = run(name, "-c", code, LLM_USER_PATH=str(tmp_path))
        expected = (
            r".*'name': 'add_numbers'.*"
            if "tool_choice" in code or "parse_response" in code
            else "add_numbers returned 42"
        )

        assert 0 == done.returncode, done.stderr
        assert re.fullmatch(expected, done.stdout.strip(), re.DOTALL), done.stdout


@pytest.mark.parametrize("name", [*ENVIRONMENTS, *ENGINES])
def test_the_page_names_the_tested_version(name: str) -> None:
    if reason := missing(name):
        pytest.skip(reason)

    assert f"| {version(name)} |" in PAGE


@pytest.mark.parametrize("name", [*ENVIRONMENTS, *ENGINES])
def test_a_plugin_is_short(name: str) -> None:
    assert len((PLUGINS / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= MAX_LINES
