"""The stores that replicas can share: a file, and a redis-server where one is installed."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.proxy.processes import free_port


@contextlib.contextmanager
def shared_stores(folder: Path) -> Iterator[list[str]]:
    """Yield the addresses of the stores, as `--store` takes them."""
    stores = [f"sqlite:{folder / 'store.db'}"]
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        print("redis-server is not installed and not measured")
        yield stores
        return
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            time.sleep(0.5)
            yield [*stores, f"redis://127.0.0.1:{port}/0"]
        finally:
            process.terminate()
