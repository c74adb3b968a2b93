"""Finds a llama-server program: installed, cached, from Debian's package, or built; the first that works.

Rule: nothing is installed on the machine. Downloads and builds are kept in `.cache` for later runs.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "llama-server"
PROGRAM = CACHE / "bin" / "llama-server"
DEBIAN_SUITE = "forky"
DEBIAN_PACKAGE = "llama.cpp-tools"
DEBIAN_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCE = "llama-cpp-python==0.3.36"
"""Its source distribution carries the llama.cpp that it binds, so no other download is needed."""

BUILD_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    # Without these two the build downloads a web page.
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)

LAUNCHER = """#!/bin/sh
# Runs Debian's program with the C library that it was built for, wherever this folder is moved to.
here=$(cd "$(dirname "$0")/.." && pwd)
libraries=$here/{libraries}
exec "$here/{loader}" --library-path "$libraries:$libraries/llama" --argv0 llama-server "$here/{program}" "$@"
"""


class UnavailableError(Exception):
    """No llama-server was found; the message says why each way failed."""


def find_llama_server(*, patient: bool) -> Path:
    """Return a llama-server; only with `patient` is it built (about 20 CPU minutes).

    Raises `UnavailableError`.
    """
    ways: list[Callable[[], Path]] = [_installed, _fetched, _unpack_debian]
    failures = []
    for way in [*ways, _build] if patient else ways:
        try:
            return way()
        except (UnavailableError, OSError) as error:
            failures.append(f"{way.__name__.lstrip('_')}: {error}")
    raise UnavailableError("no llama-server to be had. " + "; ".join(failures))


def _installed() -> Path:
    named = os.environ.get("LLAMA_SERVER")
    found = shutil.which(named or "llama-server")
    if found is None:
        raise UnavailableError(f"LLAMA_SERVER={named} is no program" if named else "not on PATH")
    return Path(found)


def _fetched() -> Path:
    if not PROGRAM.exists():
        raise UnavailableError("nothing in .cache")
    return PROGRAM


def _unpack_debian() -> Path:
    """Download the package and its dependencies by apt, with separate state folders, and unpack them without root."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb") and DEBIAN_KEYS.exists()):
        raise UnavailableError("this is not Debian")
    apt, unpacked = CACHE / "apt", CACHE / "debian"
    for leftover in (apt, unpacked):
        shutil.rmtree(leftover, ignore_errors=True)
    for folder in (apt / "lists" / "partial", apt / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    # An empty status file makes apt believe that nothing is installed, so it also downloads the C library.
    (apt / "status").touch()
    (apt / "sources.list").write_text(f"deb [signed-by={DEBIAN_KEYS}] {_debian_mirror()} {DEBIAN_SUITE} main\n")
    apt_get = ["apt-get", *_apt_options(apt)]
    _run(*apt_get, "update")
    _run(*apt_get, "install", "--yes", "--download-only", "--no-install-recommends", DEBIAN_PACKAGE)
    for archive in (apt / "archives").glob("*.deb"):
        _run("dpkg-deb", "--extract", archive, unpacked)
    shutil.rmtree(apt)
    return _launcher(unpacked / "usr")


def _debian_mirror() -> str:
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(path.read_text(errors="replace") for path in sources if path.is_file())
    found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) +(\S+/debian)/?(?: |$)", text, re.MULTILINE)
    if found is None:
        raise UnavailableError("no Debian mirror in apt's sources")
    return found[1]


def _apt_options(apt: Path) -> list[str]:
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt,
        "Acquire::Languages": "none",
        # Otherwise apt run by root downloads as a user who may not write here.
        "APT::Sandbox::User": "root",
    }
    return ["-qq", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]


def _launcher(usr: Path) -> Path:
    (libraries,) = (usr / "lib").glob("*-linux-gnu")
    # llama.cpp searches its CPU backends beside the running program, which here is the loader.
    for backend in libraries.glob("ggml/*/libggml-cpu-*.so"):
        (libraries / backend.name).symlink_to(backend.relative_to(libraries))
    parts = {
        "libraries": libraries,
        "loader": next(libraries.glob("ld-linux*.so.*")),
        "program": usr / "bin" / "llama-server",
    }
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    PROGRAM.write_text(LAUNCHER.format(**{name: path.relative_to(CACHE) for name, path in parts.items()}))
    PROGRAM.chmod(0o755)
    return PROGRAM


def _build() -> Path:
    if not (shutil.which("cmake") and shutil.which("c++")):
        raise UnavailableError("a build needs cmake and a C++ compiler")
    work = CACHE / "build"
    shutil.rmtree(work, ignore_errors=True)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=llama-cpp-python"]
    _run(*download, "--dest", work, SOURCE)
    (archive,) = work.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(work, filter="data")
    (llama,) = work.glob("*/vendor/llama.cpp")
    _run("cmake", "-S", llama, "-B", work / "out", *BUILD_OPTIONS)
    _run("cmake", "--build", work / "out", "--target", "llama-server", "--parallel", str(os.cpu_count() or 1))
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(work / "out" / "bin" / "llama-server", PROGRAM)
    shutil.rmtree(work)
    return PROGRAM


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise UnavailableError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-400:]}")
