"""Custom tools: functions from the Python files of a folder.

A file's tools are its `TOOLS` list, else its public functions with a docstring; its `CATEGORY` is theirs. A
changed file is reloaded at the next refresh; one that fails to load keeps its old tools and is reported. The folder is
the operator's: its code is executed.
"""

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.tools.base import AnyTool
from fcshim.tools.function import FunctionTool

logger = logging.getLogger(__name__)


class _LoadedFile(msgspec.Struct):
    version: tuple[int, int]
    tools: list[AnyTool]


class CustomTools:
    """The tools of a folder; `errors` has the files that failed to load. Raises `ConfigError` if it is not a folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: not a folder; expected one with Python files of tools")
        self._folder = folder
        self._loaded: dict[Path, _LoadedFile] = {}
        self.errors: dict[str, str] = {}

    def refresh(self) -> bool:
        """Reload changed files; return whether any file was added, changed or removed."""
        files: dict[Path, tuple[int, int]] = {}
        for file in sorted(self._folder.glob("*.py")):
            if not file.name.startswith("_"):
                status = file.stat()
                files[file] = (status.st_mtime_ns, status.st_size)
        changed = False
        for file in self._loaded.keys() - files.keys():
            del self._loaded[file]
            self.errors.pop(file.name, None)
            changed = True
        for file, stamp in files.items():
            if file not in self._loaded or self._loaded[file].version != stamp:
                self._load(file, stamp)
                changed = True
        return changed

    def tools(self) -> list[AnyTool]:
        """Return the tools of all files, in the order of the files' names."""
        return [tool for file in sorted(self._loaded) for tool in self._loaded[file].tools]

    def _load(self, file: Path, stamp: tuple[int, int]) -> None:
        before = self._loaded[file].tools if file in self._loaded else []
        try:
            tools = _tools_of(file)
            self.errors.pop(file.name, None)
        except Exception as error:  # noqa: BLE001 - the file's own code may raise anything, and the others must work
            self.errors[file.name] = f"{type(error).__name__}: {error}"
            logger.warning("%s: %s", file, self.errors[file.name])
            tools = before
        self._loaded[file] = _LoadedFile(stamp, tools)


def _tools_of(file: Path) -> list[AnyTool]:
    module = ModuleType(f"fcshim_custom_{file.stem}")
    module.__file__ = str(file)
    # The source file itself is executed: Python's bytecode cache misses a second change within one second.
    exec(compile(file.read_bytes(), file, "exec"), vars(module))  # noqa: S102 - running the operator's files is the purpose
    listed = getattr(module, "TOOLS", None)
    functions = _public_functions(module) if listed is None else listed
    category = str(getattr(module, "CATEGORY", ""))
    return [_as_tool(each, f"custom:{file.stem}", category) for each in functions]


def _as_tool(each: JSON, source: str, category: str) -> AnyTool:
    tool = each if isinstance(each, AnyTool) else FunctionTool(each)
    if isinstance(tool, FunctionTool):
        traits = tool.traits
        tool.traits = msgspec.structs.replace(traits, source=source, category=traits.category or category)
    return tool


def _public_functions(module: ModuleType) -> list[Callable[..., JSON]]:
    return [
        each
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_") and each.__doc__
    ]
