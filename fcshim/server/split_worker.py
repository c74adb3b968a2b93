"""Splits one request body, as a process of its own: standard input to standard output, by the module in its argument.

Rule: it imports nothing of fcshim: the module `codecs/body_fields.py` is loaded by its path, which takes a tenth of the
time.
"""

import contextlib
import importlib.util
import os
import sys

_MEMORY_LIMIT = 2**30
"""Bytes of address space: a body of 32 MB may have millions of fields."""
_CPU_LIMIT = 60
"""Seconds of CPU time; the fields of 32 MB take about 6."""


def main(path: str) -> None:
    """Split the body on standard input."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on Windows

        os.setpriority(os.PRIO_PROCESS, 0, 10)  # streams go first
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT, _CPU_LIMIT))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    spec = importlib.util.spec_from_file_location("body_fields", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["body_fields"] = module  # msgspec resolves types there
    spec.loader.exec_module(module)
    module.split_stream(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1])
