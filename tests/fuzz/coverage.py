"""The coverage-guided fuzzer: `python -m tests.fuzz.coverage [libFuzzer's options] [FOLDER | FILE ...]`; needs atheris.

Without a folder it searches for a minute, starting from a copy of the corpus and one input per dialect. An input that
breaks a law is written to a file; pass that file to run it again.

Rule: the laws are those of every other run; only the search for inputs is different.
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
    """Check one input; raise if it breaks a law."""
    _, failure = judge(read_document(data))
    if failure is not None:
        raise AssertionError(str(failure))


def main() -> None:
    """Run libFuzzer."""
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")] or ["-max_total_time=60"]
    paths = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    with tempfile.TemporaryDirectory() as folder:
        dictionary = Path(folder) / "dictionary"
        dictionary.write_text("".join(f"{_quoted(marker)}\n" for marker in _markers()), encoding="utf-8")
        if not paths:
            corpus = Path(shutil.copytree(CORPUS, Path(folder) / "corpus"))
            for name, data in seed_inputs().items():
                (corpus / name).write_bytes(data)
            paths = [str(corpus)]
        atheris.Setup([sys.argv[0], f"-dict={dictionary}", "-max_len=2000", *options, *paths], run)
        atheris.Fuzz()


def _markers() -> list[str]:
    return sorted({marker for row in DIALECTS.values() for marker in (*row.call_markers(), *row.section.openers())})


def _quoted(marker: str) -> str:
    r"""Quote a marker for a libFuzzer dictionary, with each byte as `\xNN`."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in marker.encode()) + '"'


if __name__ == "__main__":
    main()
