"""The plugin: fcshim's own parser passes, and parsers with a fault fail where the fault is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PARSERS = '''
import json, re

class TagSearch:
    """The usual code: find the tags at the end, parse what is between them."""

    def __init__(self, tools, dialect):
        self.text = ""

    def feed(self, text):
        self.text += text
        return []

    def close(self, stop_reason):
        blocks = re.findall(r"<tool_call>(.*?)</tool_call>", self.text, re.DOTALL)
        yield {"content": re.sub(r"<tool_call>.*?</tool_call>", "", self.text, flags=re.DOTALL)}
        for index, block in enumerate(blocks):
            try:
                call = json.loads(block)
                function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            except (ValueError, KeyError, TypeError):
                continue
            yield {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}

class Truncating(TagSearch):
    """A parser that completes a call that was cut off, as partial JSON parsers do."""

    def close(self, stop_reason):
        text = self.text.partition("<tool_call>")[2].partition("</tool_call>")[0].strip()
        for end in ("", "}", "}}", '"}}', 'null}}', '": null}}', ': null}}', '{}}', ']}}', '"]}}'):
            try:
                call = json.loads(text + end)
                function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            except (ValueError, KeyError, TypeError):
                continue
            yield {"tool_calls": [{"index": 0, "id": "c", "function": function}]}
            return

class PerPiece(TagSearch):
    """A parser that takes a marker only if it comes in one piece."""

    def feed(self, text):
        self.text += text if "<tool_call>" in text or self.text else ""
        return []
'''


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "parsers.py").write_text(PARSERS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    root = str(Path(__file__).parents[2])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "fcshim.testing.plugin",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, str(tmp_path)]), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [*command, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def failed(done: subprocess.CompletedProcess[str]) -> set[str]:
    return {line.split("::", 1)[1].split(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}


def test_fcshims_own_parser_passes(tmp_path):
    done = run(tmp_path, "--fcshim-parser", "fcshim.testing.reader:make_own_parser", "--fcshim-seeds", "4")

    assert 0 == done.returncode, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]


def test_it_passes_in_other_dialects(tmp_path):
    arguments = [
        "--fcshim-dialect",
        "qwen3_xml",
        "--fcshim-dialect",
        "pythonic",
        "--fcshim-seeds",
        "2",
        "-k",
        "mistake",
    ]
    done = run(tmp_path, "--fcshim-parser", "fcshim.testing.reader:make_own_parser", *arguments)

    assert 0 == done.returncode, done.stdout


def test_the_usual_code_loses_calls_and_runs_none_that_was_not_meant(tmp_path):
    found = failed(run(tmp_path, "--fcshim-parser", "parsers:TagSearch", "--fcshim-seeds", "4"))

    assert "test_a_case_is_read_right[trailing comma]" in found
    assert "test_a_mistake_never_makes_a_call_that_was_not_meant[no mistake-hermes]" not in found
    assert not any("every_split" in name for name in found)


def test_a_parser_that_completes_calls_runs_some_that_were_not_meant(tmp_path):
    found = failed(run(tmp_path, "--fcshim-parser", "parsers:Truncating", "--fcshim-seeds", "10", "-k", "mistake"))

    assert any("broken off" in name for name in found), found


def test_a_parser_that_depends_on_the_pieces_fails_for_that(tmp_path):
    found = failed(run(tmp_path, "--fcshim-parser", "parsers:PerPiece", "-k", "split"))

    assert "test_a_case_is_read_the_same_from_every_split[trailing comma]" not in found  # it reads nothing at all there
    assert any("every_split" in name for name in found)


def test_the_suite_runs_beside_the_files_that_are_named(tmp_path):
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n", encoding="utf-8")
    named = ["--fcshim-parser", "fcshim.testing.reader:make_own_parser", "-k", "mine or trailing"]

    passed = [
        run(tmp_path, *more).stdout.splitlines()[-1].split(" passed")[0]
        for more in (named, [*named, "test_mine.py"], [])
    ]
    assert ["5", "6", "1"] == passed


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("parsers", "expected MODULE:FACTORY"),
        ("nowhere:make", "No module named 'nowhere'"),
        ("parsers:Nothing", "has no attribute 'Nothing'"),
        ("parsers:json.dumps", "has no attribute"),
    ],
)
def test_a_wrong_name_is_an_error_of_the_command_line(tmp_path, option, message):
    done = run(tmp_path, "--fcshim-parser", option)

    assert (4, True) == (done.returncode, message in done.stderr + done.stdout)
