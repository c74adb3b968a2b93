"""Converts a web page to Markdown: its article, without navigation and margins.

Rule: text that is not HTML is unchanged; a page without an article is converted whole. A separate process does the
work, with limits on time and memory: some pages take the libraries minutes. Needs the extra `fcshim[tools]`.
"""

import json
import sys
from pathlib import Path

from fcshim.errors import ToolError
from fcshim.tools.builtin import article_worker
from fcshim.tools.builtin.command import run_command

DEFAULT_SECONDS = 15.0
"""Seconds for one page: the longest articles of an encyclopedia (1 MB) take about 3."""
MEMORY_LIMIT = 2**30
"""Bytes of address space of the process: a page of 5 MB becomes a tree of some hundred."""
_MAX_OUTPUT = 32 * 2**20
_HTML_TYPES = ("text/html", "application/xhtml+xml")


async def html_to_markdown(text: str, media_type: str, *, seconds: float = DEFAULT_SECONDS) -> str:
    """Convert a page to Markdown. Raises `ToolError` without the libraries, and at the limits."""
    if media_type not in _HTML_TYPES:
        return text
    request = json.dumps({"html": text, "memory": MEMORY_LIMIT}).encode()
    worker = [sys.executable, "-P", str(Path(article_worker.__file__))]
    try:
        result = await run_command(worker, cwd=Path("/"), stdin=request, seconds=seconds, max_output=_MAX_OUTPUT)
    except OSError as error:
        raise ToolError(f"The page cannot be converted: {error}") from error
    if result.code is None:
        raise ToolError(f"The page was not converted within {seconds:g} seconds; ask with raw.")
    return _read_answer(result.output)


def _read_answer(output: bytes) -> str:
    """Read the worker's answer; libraries may have written warnings before it, and a lack of memory may end it."""
    try:
        answer = json.loads(output[output.rfind(b"\n{") + 1 :])
    except ValueError:
        raise ToolError("The page could not be converted (it may need too much memory); ask with raw.") from None
    if "error" in answer:
        raise ToolError(str(answer["error"]))
    return str(answer["markdown"])
