"""The file of results: a header line with the terms of the run, then a line for each result, written as it arrives.

Rule: however a run ends, the file can be read and resumed; results of other terms are never mixed in.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from fcshim.errors import ConfigError
from fcshim.evaluate.result import Result
from fcshim.events import JSON


class ResultFileHeader(msgspec.Struct, frozen=True):
    """The first line of the file."""

    fcshim_eval: int
    """The version of the file format."""
    terms: dict[str, JSON]


_FORMAT_VERSION = 1


class ResultFile:
    """The results of one run by dialect and case, and the file that keeps them if there is a path.

    Use it as a context manager. A case whose result is an `error` runs again when the file is resumed.
    """

    def __init__(self, path: Path | None, terms: dict[str, JSON], *, resume: bool = False) -> None:
        """Open the file. Raises `ConfigError` if it exists and `resume` is not set, or if its terms differ."""
        self._results: dict[tuple[str, str], Result] = {}
        if path is None:
            self._file = None
            return
        if path.exists() and not resume:
            raise ConfigError(f"{path} already exists: --resume continues it")
        whole = _read_complete_lines(path) if path.exists() else b""
        if whole:
            self._read(path, whole, terms)
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        self._file.truncate(len(whole))  # removes an incomplete last line, so that the next result starts a line
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
        """All results, including those of earlier runs."""
        return list(self._results.values())

    def has(self, dialect: str, case: str) -> bool:
        """Return whether there is a result other than `error` for the case in that dialect."""
        found = self._results.get((dialect, case))
        return found is not None and found.verdict != "error"

    def add(self, result: Result) -> None:
        """Add a result and flush it to the file."""
        self._results[result.dialect, result.id] = result
        self._write(result)

    def _read(self, path: Path, data: bytes, terms: dict[str, JSON]) -> None:
        first, *rest = data.removesuffix(b"\n").split(b"\n")
        try:
            header = msgspec.json.decode(first, type=ResultFileHeader)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: not a file of results of fcshim eval") from error
        if header.fcshim_eval != _FORMAT_VERSION:
            raise ConfigError(
                f"{path}: format {header.fcshim_eval}, of another version of fcshim; expected {_FORMAT_VERSION}"
            )
        if (old := header.terms) != terms:
            changed = [name for name in dict.fromkeys([*old, *terms]) if old.get(name) != terms.get(name)]
            listed = ", ".join(f"{name} was {old.get(name)!r}, is {terms.get(name)!r}" for name in changed)
            raise ConfigError(f"{path} was made with other settings: {listed}")
        for number, line in enumerate(rest, 2):
            try:
                result = msgspec.json.decode(line, type=Result)
            except (msgspec.DecodeError, RecursionError) as error:
                raise ConfigError(f"{path}:{number}: not a result: {error}") from error
            self._results[result.dialect, result.id] = result

    def _write(self, item: ResultFileHeader | Result) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(item) + b"\n")
            self._file.flush()


def _read_complete_lines(path: Path) -> bytes:
    """Read the file up to its last newline: a run that was killed can leave half a line. Raises `ConfigError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return data[: data.rfind(b"\n") + 1]
