"""The file of results: a line that says what was run, then a line for each result, written as it comes.

Rule: whatever stops a run, the file can be read and gone on with; results of other terms are never mixed in.
Neighbours: `plan` has the terms, `campaign` adds results and skips those that are there.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from fcshim.errors import ConfigError
from fcshim.evaluate.result import Result
from fcshim.events import JSON


class ResultFileHeader(msgspec.Struct, frozen=True):
    """The first line."""

    fcshim_eval: int
    """The version of the file's form."""
    terms: dict[str, JSON]


_FORMAT_VERSION = 1


class ResultFile:
    """The results of one run by dialect and case, and the file that keeps them where there is one.

    Use it as a context manager. A case that ended with an `error` counts as not asked: it is asked again.
    """

    def __init__(self, path: Path | None, terms: dict[str, JSON], *, resume: bool = False) -> None:
        """Raises `ConfigError` where the file is there and `resume` is not set, or its terms are others."""
        self._results: dict[tuple[str, str], Result] = {}
        if path is None:
            self._file = None
            return
        if path.exists() and not resume:
            raise ConfigError(f"{path} is there already: --resume goes on with it")
        whole = _read_complete_lines(path) if path.exists() else b""
        if whole:
            self._read(path, whole, terms)
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        self._file.truncate(len(whole))
        if not whole:
            self._write(ResultFileHeader(_FORMAT_VERSION, terms))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def results(self) -> list[Result]:
        """All results that are there, those of earlier runs included."""
        return list(self._results.values())

    def has(self, dialect: str, case: str) -> bool:
        """Tell whether a case has been answered in that dialect."""
        found = self._results.get((dialect, case))
        return found is not None and found.verdict != "error"

    def add(self, result: Result) -> None:
        """Keep a result; it is in the file when this returns."""
        self._results[result.dialect, result.id] = result
        self._write(result)

    def _read(self, path: Path, data: bytes, terms: dict[str, JSON]) -> None:
        first, *rest = data.removesuffix(b"\n").split(b"\n")
        try:
            header = msgspec.json.decode(first, type=ResultFileHeader)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: these are no results of fcshim eval") from error
        if header.fcshim_eval != _FORMAT_VERSION:
            raise ConfigError(f"{path}: results in form {header.fcshim_eval}, of another version of fcshim")
        if header.terms != terms:
            raise ConfigError(f"{path} was made with other settings: {_difference(header.terms, terms)}")
        for number, line in enumerate(rest, 2):
            try:
                result = msgspec.json.decode(line, type=Result)
            except (msgspec.DecodeError, RecursionError) as error:
                raise ConfigError(f"{path}:{number}: no result: {error}") from error
            self._results[result.dialect, result.id] = result

    def _write(self, item: ResultFileHeader | Result) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(item) + b"\n")
            self._file.flush()


def _read_complete_lines(path: Path) -> bytes:
    """Read the file without a last line that was cut off while it was written. Raises `ConfigError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return data[: data.rfind(b"\n") + 1]


def _difference(old: dict[str, JSON], new: dict[str, JSON]) -> str:
    named = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} was {old.get(name)!r}, is {new.get(name)!r}" for name in named)
