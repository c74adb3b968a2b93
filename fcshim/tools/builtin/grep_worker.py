"""Searches files for a pattern in a separate process.

Rule: standard library only. Standard input is `{"pattern", "files", "max_matches"}`; standard output has one match a
line, or `{"error"}` for a pattern that is no regular expression. A pattern that takes long to compile, or backtracks
without end, is stopped by killing the process, which cannot be done to a thread.
"""

import json
import re
import sys

_FILE_LIMIT = 10 * 2**20
_LINE_LIMIT = 500


def main() -> None:
    """Search until there are `max_matches` matches."""
    request = json.load(sys.stdin)
    try:
        pattern = re.compile(request["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        print(json.dumps({"error": str(error)[:_LINE_LIMIT]}))  # noqa: T201 - this is its output
        return
    remaining = request["max_matches"]
    for path in request["files"]:
        for number, line in _matches(path, pattern):
            print(json.dumps([path, number, line[:_LINE_LIMIT]]), flush=True)  # noqa: T201 - this is its output
            remaining -= 1
            if not remaining:
                return


def _matches(path: str, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - faster to start without pathlib
            data = file.read(_FILE_LIMIT)
    except OSError:
        return []
    if b"\0" in data[:8_192]:
        return []
    lines = data.decode(errors="replace").split("\n")
    return [(number, line.rstrip("\r")) for number, line in enumerate(lines, 1) if pattern.search(line)]


if __name__ == "__main__":
    main()
