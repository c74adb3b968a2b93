"""The pages on custom dialects and readers, followed as they are written."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim import load_dialect
from fcshim.constrain.constraint import dialect_note
from fcshim.errors import ConfigError
from fcshim.ext import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.resources import resource_dir
from tests.clients.programs import programs
from tests.examples import examples
from tests.parse.cases import Case, check
from tests.parse.test_round_trip import check_round_trip, turns

DOCS = Path(__file__).parent.parent / "docs"
CALL = "<lines>\ntool = f\na = 1\n</lines>"


def blocks(page: str, language: str) -> list[str]:
    return programs(f"docs/{page}", language)


def printed(folder: Path, program: str) -> str:
    """Run a program in the folder and return what it prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)

    return done.stdout.strip()


def test_the_table_of_dialects_is_complete() -> None:
    page = (DOCS / "dialects.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|`]+ \| (`.*`[^|]*) \|$", page, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert sorted(DIALECTS) == sorted(name for name in named if name in DIALECTS)


def test_the_page_on_dialects_makes_a_dialect(tmp_path: Path) -> None:
    shutil.copytree(resource_dir("templates") / "hermes", tmp_path / "mine")
    (row,) = blocks("dialects.md", "toml")
    (tmp_path / "mine" / "dialect.toml").write_text(row, encoding="utf-8")
    (program,) = blocks("dialects.md", "python")

    assert '{"first": 19}' == printed(tmp_path, program)


def test_the_page_on_dialects_shows_the_error_of_a_broken_one(tmp_path: Path) -> None:
    shutil.copytree(resource_dir("templates") / "hermes", tmp_path / "mine")
    (row,) = blocks("dialects.md", "toml")
    (tmp_path / "mine" / "dialect.toml").write_text(row, encoding="utf-8")
    template = '{{ open }}{"name": {{ name | json }}, "with": {{ arguments }}}{{ close }}'
    (tmp_path / "mine" / "call.jinja").write_text(template, encoding="utf-8")
    (shown,) = blocks("dialects.md", "text")

    with pytest.raises(ConfigError) as error:
        load_dialect(tmp_path / "mine")

    assert shown.replace("/home/me", str(tmp_path)).strip() == f"fcshim: {error.value}"


def write_reader(folder: Path) -> None:
    """Write the files of the page on readers."""
    (folder / "lines").mkdir()
    for template in blocks("custom-reader.md", "jinja"):
        name = re.match(r"{# (lines/\w+\.jinja) #}\n", template)
        assert name is not None
        (folder / name[1]).write_text(template, encoding="utf-8")
    reader, dialect, _ = blocks("custom-reader.md", "python")
    (folder / "lines.py").write_text(f"{reader}\n\n{dialect}", encoding="utf-8")


def test_the_page_on_readers_prints_the_arguments(tmp_path: Path) -> None:
    write_reader(tmp_path)

    assert '{"city": "Paris"}' == printed(tmp_path, blocks("custom-reader.md", "python")[2])


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dialect]:
    """The page's dialect, imported here."""
    folder = tmp_path_factory.mktemp("reader")
    write_reader(folder)
    spec = importlib.util.spec_from_file_location("lines", folder / "lines.py")
    assert spec is not None
    assert spec.loader is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        module: Any = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "lines", module)
        spec.loader.exec_module(module)
        yield module.LINES


def call(value: Any, error: str | None = None) -> dict[str, Any]:
    return {"call": "f", "error": error} if error else {"call": "f", "value": value}


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (f"So: {CALL}", [{"text": "So: "}, call({"a": 1}), {"stop": "tool_use"}]),
        (f"{CALL}\n{CALL}", [call({"a": 1}), {"text": "\n"}, call({"a": 1}), {"stop": "tool_use"}]),
        ("<lines>\ntool = f\n</lines> Done.", [call({}), {"text": " Done."}, {"stop": "tool_use"}]),
        ("<lines> tool=f \n\n a=x = y\n  </lines>", [call({"a": "x = y"}), {"stop": "tool_use"}]),
        ("<lines>\ntool = f\nb = 5\n</lines>", [call({"b": "5"}), {"stop": "tool_use"}]),
        ("<lines>\ntool = f\na\n</lines>", [call(None, "malformed"), {"stop": "complete"}]),
        ("<lines>\ntool = f\na = 1\na = 2\n</lines>", [call(None, "malformed"), {"stop": "complete"}]),
        (f"<lines>\ntool = f\na = {'x' * 20_000}\n</lines>", [call(None, "limit"), {"stop": "complete"}]),
        (f"<lines>\ntool = f\na = {'[' * 9_000}\n</lines>", [{"call": "f"}, {"stop": "tool_use"}]),
        ("<lines>\ntool = g\na = 1\n</lines>", [{"text": "<lines>\ntool = g\na = 1\n</lines>"}, {"stop": "complete"}]),
        ("<lines> of text", [{"text": "<lines> of text"}, {"stop": "complete"}]),
    ],
)
def test_the_pages_reader_passes_the_cases_of_any_reader(
    lines: Dialect, text: str, events: list[dict[str, Any]]
) -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}}}
    options = {"dialect": lines}

    check(Case("lines", text, events, tools=[{"name": "f", "parameters": schema}], options=options))


@pytest.mark.parametrize("stop_reason", ["complete", "max_tokens"])
def test_the_pages_reader_accepts_a_call_without_end_marker_if_the_reply_ended_by_itself(
    lines: Dialect, stop_reason: Any
) -> None:
    whole, half = "<lines>\ntool = f\na = 1\n", "<lines>\ntool = f\na = 1"
    natural = stop_reason == "complete"
    tools = [{"name": "f"}]
    options: dict[str, Any] = {
        "tools": tools,
        "options": {"dialect": lines},
        "stop_reason": stop_reason,
        "last": True,
    }
    accepted = [call({"a": 1}), {"stop": "tool_use"}]
    truncated = [call(None, "truncated"), {"stop": stop_reason}]

    check(Case("whole", whole, accepted if natural else truncated, **options))
    check(Case("half", half, truncated, **options))


@examples(14)
@given(turn=turns(), seed=st.integers(0, 2**32))
def test_the_pages_reader_reads_any_call_that_its_templates_write(lines: Dialect, turn: Any, seed: int) -> None:
    check_round_trip(lines, *turn, seed)


def test_the_pages_dialect_cannot_be_constrained(lines: Dialect) -> None:
    assert "calls in the dialect 'lines' cannot be constrained" in dialect_note(lines)
