"""What a request passes through in a package: counted by the interpreter's own hook, for fcshim and for a peer.

Rule: only the standard library is imported, since a peer is traced in its own environment.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

BODY = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "How is the weather in Rome?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            },
        }
    ],
}
"""A streamed request of Chat Completions with one tool."""


@dataclass(slots=True)
class RequestTrace(AbstractContextManager["RequestTrace"]):
    """What ran in a package: files, functions, how often another part began to run, and frames on the stack at most.

    `package` is the package's folder; its parts are the modules and folders in it.
    """

    package: Path
    files: set[str] = field(default_factory=set)
    functions: set[CodeType] = field(default_factory=set)
    package_changes: int = 0
    deepest: int = 0
    _last_part: str = ""

    def __enter__(self) -> "RequestTrace":
        """Begin to count in this thread."""
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop counting."""
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._is_own(frame.f_code):
            return
        self.files.add(frame.f_code.co_filename)
        self.functions.add(frame.f_code)
        self.deepest = max(self.deepest, sum(self._is_own(each.f_code) for each in _frames(frame)))
        part = Path(frame.f_code.co_filename).relative_to(self.package).parts[0]
        self.package_changes += part != self._last_part
        self._last_part = part

    def _is_own(self, code: CodeType) -> bool:
        return code.co_filename.startswith(f"{self.package}{os.sep}")


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
