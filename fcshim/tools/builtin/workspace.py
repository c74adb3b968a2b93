"""The folder in which the built-in tools work.

Rule: a path is resolved, including symbolic links, before it is checked; paths outside the folder are refused unless
the operator allows them.
"""

from pathlib import Path

from fcshim.errors import ConfigError, ToolError

_MAX_NAME = 255
"""Bytes of a file's or folder's name, and below of a path: what Linux and macOS allow."""
_MAX_PATH = 4096


class Workspace:
    """A folder; `restrict` false permits paths outside it. Raises `ConfigError` if it is not a folder."""

    def __init__(self, root: Path | str, *, restrict: bool = True) -> None:
        try:
            self.root = Path(root).expanduser().resolve(strict=True)
        except OSError as error:
            raise ConfigError(f"{root}: {error.strerror}; expected a folder to work in") from error
        if not self.root.is_dir():
            raise ConfigError(f"{root}: not a folder; expected one to work in")
        self._restrict = restrict

    def resolve(self, path: str) -> Path:
        """Return the real path of `path`, which is relative to the root. Raises `ToolError`."""
        sizes = [len(name.encode(errors="surrogatepass")) for name in path[:_MAX_PATH].split("/")]
        if len(path) > _MAX_PATH or max(sizes) > _MAX_NAME:
            raise ToolError(
                f"{path[:100]!r}... is too long: expected names of at most {_MAX_NAME} bytes and {_MAX_PATH} in all."
            )
        try:
            found = (self.root / Path(path).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError(
                f"{path[:200]!r} is not a path: expected a path without NUL, half surrogate pairs, loops of links, "
                "and home folders that do not exist."
            ) from error
        # Neither symbolic links nor a sibling folder with the root's prefix count as inside (CVE-2025-53109, -53110).
        if self._restrict and not found.is_relative_to(self.root):
            raise ToolError(f"{path} is outside the workspace {self.root}.")
        return found

    def existing_file(self, path: str) -> Path:
        """Return the path of an existing file. Raises `ToolError`."""
        found = self.resolve(path)
        if found.is_dir():
            raise ToolError(f"{path} is a folder; use ListDir.")
        if not found.is_file():
            raise ToolError(f"There is no file {path}.")
        return found

    def existing_folder(self, path: str) -> Path:
        """Return the path of an existing folder. Raises `ToolError`."""
        found = self.resolve(path)
        if not found.is_dir():
            raise ToolError(f"{path} is not a folder." if found.exists() else f"There is no folder {path}.")
        return found

    def display_path(self, path: Path) -> str:
        """Return a path as the model knows it: relative to the root if it is inside."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
