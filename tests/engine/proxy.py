"""A running `fcshim serve`, used only through its command line and its port."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.process import free_port, serving


@contextmanager
def proxying(upstream: str, folder: Path, *options: str) -> Iterator[str]:
    """Run the proxy in front of `upstream`; yield its URL without a path."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "fcshim", "serve", "--upstream", upstream, "--port", str(port), *options]
    with serving(command, url, folder / f"proxy.{port}.log"):
        yield url
