"""What these tests share: a folder, a page to fetch, and the servers' entries in a servers file."""

import http.server
import subprocess
import threading

import pytest

from tests.registry.environments import entry, missing

PAGE = b"<!doctype html><title>Pears</title><article><p>" + b"Pears are a fruit. " * 20 + b"</p></article>"


class _PageHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def page():
    """The URL of a page on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _PageHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def folder(tmp_path):
    """A git repository with one file that is not committed."""
    made = tmp_path / "repository"
    made.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=made, check=True)
    (made / "a.txt").write_text("hello " * 1_000)
    return made


@pytest.fixture
def entries(folder):
    """Return the entry of a server; skip the test without its environment."""
    arguments = {
        "filesystem": (str(folder),),
        "git": ("--repository", str(folder)),
        "fetch": ("--ignore-robots-txt", "--allow-private-ips"),
        "time": ("--local-timezone", "UTC"),
    }

    def find(name):
        if missing(name):
            pytest.skip(missing(name))
        found = entry(name, *arguments.get(name, ()))
        if name == "memory":
            found["env"] = {**found["env"], "MEMORY_FILE_PATH": str(folder / "memory.json")}
        return found

    return find
