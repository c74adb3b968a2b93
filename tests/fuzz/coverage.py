"""The coverage-guided fuzzer: `python -m tests.fuzz.coverage [libFuzzer's options] [FOLDER | FILE ...]`; needs atheris.

Without a folder it searches, for a minute, from a copy of the corpus and an input for each dialect. What breaks a law
is written to a file, and is run again by giving that file.

Rule: the laws are those of every other run; only how inputs are found is different.
Neighbours: `inputs` says what an input means, `judge` runs it.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fcshim.parse", "fcshim.schema"]):
    from fcshim.parse.dialects import DIALECTS
    from fcshim.parse.stream import StreamParser

from tests.fuzz.inputs import CORPUS, read_document, seed_inputs
from tests.fuzz.judge import judge

__all__ = ["StreamParser", "main", "run"]


def run(data: bytes) -> None:
    """Judge one input; raise where a law is broken."""
    _, failure = judge(read_document(data))
    if failure is not None:
        raise AssertionError(str(failure))


def main() -> None:
    """Let libFuzzer search."""
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")] or ["-max_total_time=60"]
    places = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "words"
        words.write_text("".join(f"{_quoted(marker)}\n" for marker in _markers()), encoding="utf-8")
        if not places:
            corpus = Path(shutil.copytree(CORPUS, Path(folder) / "corpus"))
            for name, data in seed_inputs().items():
                (corpus / name).write_bytes(data)
            places = [str(corpus)]
        atheris.Setup([sys.argv[0], f"-dict={words}", "-max_len=2000", *options, *places], run)
        atheris.Fuzz()


def _markers() -> list[str]:
    return sorted({marker for row in DIALECTS.values() for marker in (*row.call_markers(), *row.section_openers())})


def _quoted(marker: str) -> str:
    r"""Spell a marker as libFuzzer's dictionaries do, with `\xNN` for what is not plain."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in marker.encode()) + '"'


if __name__ == "__main__":
    main()
