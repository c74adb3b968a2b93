"""The tools WebFetch and WebSearch.

Rule: a page's text is returned to the model as data, as Markdown of its article without navigation and margins; a page
without an article is converted whole, and text that is not HTML is unchanged. A long page is summarised if there is a
summariser. Needs the extra `fcshim[tools]`.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec

from fcshim.errors import ToolError
from fcshim.tools.base import Traits
from fcshim.tools.builtin.fetch import fetch
from fcshim.tools.builtin.websearch import SearchResult, SearchService
from fcshim.tools.function import FunctionTool

_MIN_ARTICLE = 200
"""Characters of an article; with less the page is taken for a list or a form, and is converted whole."""
_BLANK_LINES = re.compile(r"\n{3,}")
_HTML_TYPES = ("text/html", "application/xhtml+xml")


def html_to_markdown(text: str, media_type: str, *, full_page: bool = False) -> str:
    """Convert a page to Markdown; `full_page` keeps menus and margins. Raises `ToolError` without the libraries."""
    if media_type not in _HTML_TYPES:
        return text
    try:
        from lxml.etree import LxmlError  # noqa: PLC0415 - an optional library
        from markdownify import markdownify  # noqa: PLC0415
        from readability import Document  # noqa: PLC0415
        from readability.readability import Unparseable  # noqa: PLC0415
    except ImportError as error:
        raise ToolError("Pages cannot be read here: pip install 'fcshim[tools]', or ask with raw.") from error
    title, article = "", text
    if not full_page:
        try:
            document = Document(text)
            title, article = document.short_title(), document.summary(html_partial=True)
        except (Unparseable, LxmlError, ValueError, RecursionError):
            pass
    try:
        made = _tidy(markdownify(article, heading_style="ATX", strip=["script", "style", "img"]))
    except RecursionError as error:
        raise ToolError("The page is nested too deeply to be read; ask with raw.") from error
    if len(made) < _MIN_ARTICLE and not full_page:
        return html_to_markdown(text, media_type, full_page=True)
    return f"# {title}\n\n{made}" if title and not made.startswith("# ") else made


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip()


SUMMARY_THRESHOLD = 4 * 1024
"""Characters of a page beyond which it is summarised."""
_MAX_SUMMARY_INPUT = 100_000
"""Characters that the summariser gets: more would not fit into most models' contexts."""

Summarise: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Summarises a text with regard to a question: (question, text) to summary."""

_DEFAULT_PROMPT = "What does this page say? Keep all that somebody could need who cannot see it."


class Web:
    """WebFetch and WebSearch; `allow_private` permits addresses of this machine and its networks."""

    def __init__(
        self, *, summarise: Summarise | None = None, service: SearchService | None = None, allow_private: bool = False
    ) -> None:
        self._summarise = summarise
        self._service = service
        self._allow_private = allow_private

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        traits = Traits(sensitivity="safe", reads_only=True, source="builtin:web")
        return [
            FunctionTool(
                self.fetch, name="WebFetch", traits=msgspec.structs.replace(traits, subject="url", subject_kind="url")
            ),
            FunctionTool(self.search, name="WebSearch", traits=msgspec.structs.replace(traits, subject="query")),
        ]

    async def fetch(
        self,
        url: Annotated[str, "http or https"],
        prompt: Annotated[str | None, "what you want to know of the page"] = None,
        *,
        raw: Annotated[bool, "the page as it is, instead of its article as Markdown"] = False,
    ) -> str:
        """Load a web page and give its article as Markdown; a long one is summed up."""
        page = await fetch(url, allow_private=self._allow_private)
        if raw:
            return page.text
        text = html_to_markdown(page.text, page.media_type)
        if self._summarise is None or (len(text) <= SUMMARY_THRESHOLD and prompt is None):
            return text or "(the page has no text)"
        return await self._summarise(prompt or _DEFAULT_PROMPT, text[:_MAX_SUMMARY_INPUT])

    async def search(self, query: str, count: Annotated[int, "how many results, up to 20"] = 5) -> str:
        """Search the web; gives titles, addresses and excerpts."""
        if self._service is None:
            raise ToolError("Searching the web is not available here: no service is configured.")
        found = await self._service.search(query, max(1, min(count, 20)))
        return "\n\n".join(map(_format_result, found)) or f"Nothing was found for {query}."


def _format_result(result: SearchResult) -> str:
    return "\n".join(filter(None, (result.title, result.url, result.excerpt[:500])))
