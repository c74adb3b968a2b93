"""The measured processes: started here, measured through /proc, terminated by their ids.

Rule: loopback and free ports; every process is terminated at the end of its context.
"""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_START_SECONDS = 120.0
_NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream backend {{ server {upstream}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Process:
    """A process that listens on a loopback port. nginx serves requests in a child process, so children count."""

    port: int
    pid: int

    def cpu(self) -> float:
        """Return the seconds of CPU that the process and its children have used."""
        return sum(map(cpu_seconds, self.pids()))

    def memory(self) -> int:
        """Return the resident bytes of the process and its children."""
        return sum(map(_resident_bytes, self.pids()))

    def pids(self) -> list[int]:
        """Return the ids of the process and of its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]


def cpu_seconds(pid: int) -> float:
    """Return seconds of CPU from `schedstat`: the ticks of `stat` are wrong where the load itself is periodic."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def scripted_upstream() -> Iterator[Process]:
    """Run the scripted endpoint."""
    port = free_port()
    with _running([sys.executable, "-m", "benchmarks.proxy.upstream", str(port)], port) as process:
        yield process


@contextmanager
def proxy(name: str, upstream: Process, folder: Path, *options: str) -> Iterator[Process]:
    """Run `fcshim` with `options`, the bare `relay` or `nginx` in front of the endpoint."""
    port, url = free_port(), f"http://127.0.0.1:{upstream.port}"
    python = [sys.executable, "-m"]
    commands: dict[str, Sequence[str]] = {
        "fcshim": [*python, *f"fcshim serve --upstream {url} --port {port} --log-level error".split(), *options],
        "relay": [*python, "benchmarks.proxy.relay", str(port), url],
        "nginx": [shutil.which("nginx") or "", "-p", str(folder), "-c", str(folder / "nginx.conf")],
    }
    if name == "nginx":
        settings = _NGINX.format(folder=folder, upstream=f"127.0.0.1:{upstream.port}", port=port)
        (folder / "nginx.conf").write_text(settings)
    with _running(commands[name], port) as process:
        yield process


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[Process]:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_for_port(child, port)
        yield Process(port, child.pid)
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _wait_for_port(child: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if child.poll() is not None:
            raise RuntimeError(f"{child.args!r} ended with status {child.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{child.args!r} does not listen")
