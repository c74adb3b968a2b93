"""The tools WebFetch and WebSearch.

Rule: a page's text is returned to the model as data; a long page is summarised if there is a summariser.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeAlias

import msgspec

from fcshim.tools.base import Traits
from fcshim.tools.builtin.article import html_to_markdown
from fcshim.tools.builtin.fetch import fetch
from fcshim.tools.builtin.websearch import SearchResult, SearchService
from fcshim.tools.function import FunctionTool

SUMMARY_THRESHOLD = 4 * 1024
"""Characters of a page beyond which it is summarised."""
_MAX_SUMMARY_INPUT = 100_000
"""Characters that the summariser gets: more would not fit into most models' contexts."""

Summarise: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Summarises a text with regard to a question: (question, text) to summary."""

_DEFAULT_PROMPT = "What does this page say? Keep all that somebody could need who cannot see it."


class Web:
    """WebFetch, and WebSearch if there is a service; `allow_private` permits addresses of this machine's networks."""

    def __init__(
        self, *, summarise: Summarise | None = None, service: SearchService | None = None, allow_private: bool = False
    ) -> None:
        self._summarise = summarise
        self._service = service
        self._allow_private = allow_private

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        traits = Traits(sensitivity="safe", reads_only=True, source="builtin:web")
        # Only a summariser can answer a prompt; without one the parameter is not offered.
        load = self.load if self._summarise is None else self.fetch
        by_url = msgspec.structs.replace(traits, subject="url", subject_kind="url")
        tools = [FunctionTool(load, name="WebFetch", traits=by_url)]
        if self._service is not None:
            by_query = msgspec.structs.replace(traits, subject="query")
            tools.append(FunctionTool(self.search, name="WebSearch", traits=by_query))
        return tools

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
        text = await html_to_markdown(page.text, page.media_type)
        if self._summarise is None or (len(text) <= SUMMARY_THRESHOLD and prompt is None):
            return text or "(the page has no text)"
        return await self._summarise(prompt or _DEFAULT_PROMPT, text[:_MAX_SUMMARY_INPUT])

    async def load(
        self,
        url: Annotated[str, "http or https"],
        *,
        raw: Annotated[bool, "the page as it is, instead of its article as Markdown"] = False,
    ) -> str:
        """Load a web page and give its article as Markdown."""
        return await self.fetch(url, raw=raw)

    async def search(self, query: str, count: Annotated[int, "how many results, up to 20"] = 5) -> str:
        """Search the web; gives titles, addresses and excerpts."""
        assert self._service is not None
        found = await self._service.search(query, max(1, min(count, 20)))
        return format_results(found, query)


def format_results(found: Sequence[SearchResult], query: str) -> str:
    """Return the results of a search as text for the model."""
    return "\n\n".join(map(_format_result, found)) or f"Nothing was found for {query}."


def _format_result(result: SearchResult) -> str:
    return "\n".join(filter(None, (result.title, result.url, result.excerpt[:500])))
