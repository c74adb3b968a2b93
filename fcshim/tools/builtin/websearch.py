"""Web search services: Tavily, Jina, SearXNG.

Rule: a service is a row of a table: how to build its request, and which fields of its response have the results.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import httpx
import msgspec

from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON

ServiceKind: TypeAlias = Literal["tavily", "jina", "searxng"]

_SECONDS = 20.0


class SearchResult(msgspec.Struct, frozen=True):
    """One search result."""

    title: str
    url: str
    excerpt: str


class _ServiceApi(msgspec.Struct, frozen=True):
    """A service's default URL and request builder, and the response fields of the results and their excerpts."""

    url: str
    build_request: Callable[[str, str, str, int], httpx.Request]
    results: str
    excerpt: str


def _tavily(url: str, key: str, query: str, count: int) -> httpx.Request:
    body = {"query": query, "max_results": count}
    return httpx.Request("POST", f"{url}/search", json=body, headers={"Authorization": f"Bearer {key}"})


def _jina(url: str, key: str, query: str, _: int) -> httpx.Request:
    headers = {"Accept": "application/json", "X-Respond-With": "no-content"}
    return httpx.Request("GET", f"{url}/", params={"q": query}, headers=headers | {"Authorization": f"Bearer {key}"})


def _searxng(url: str, _: str, query: str, __: int) -> httpx.Request:
    return httpx.Request("GET", f"{url}/search", params={"q": query, "format": "json"})


_SERVICES: dict[ServiceKind, _ServiceApi] = {
    "tavily": _ServiceApi("https://api.tavily.com", _tavily, "results", "content"),
    "jina": _ServiceApi("https://s.jina.ai", _jina, "data", "description"),
    "searxng": _ServiceApi("", _searxng, "results", "content"),
}


class SearchService:
    """A web search service. Raises `ConfigError` if its key or its URL is missing."""

    def __init__(self, kind: ServiceKind, *, key: str = "", url: str = "") -> None:
        self._api = _SERVICES[kind]
        self._kind = kind
        self._key = key
        self._url = (url or self._api.url).rstrip("/")
        if not self._url:
            raise ConfigError(f"{kind}: expected the address of the service")
        if not key and kind != "searxng":
            raise ConfigError(f"{kind}: expected a key of the service")

    async def search(self, query: str, count: int) -> list[SearchResult]:
        """Return up to `count` results. Raises `ToolError`."""
        request = self._api.build_request(self._url, self._key, query, count)
        try:
            async with httpx.AsyncClient(timeout=_SECONDS) as client:
                response = await client.send(request)
                response.raise_for_status()
                answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ToolError(f"{self._kind} did not answer: {type(error).__name__}") from error
        return [self._to_result(each) for each in self._result_list(answer)[:count]]

    def _result_list(self, answer: JSON) -> list[dict[str, JSON]]:
        listed = answer.get(self._api.results) if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise ToolError(f"{self._kind} gave no list of results.")
        return [each for each in listed if isinstance(each, dict)]

    def _to_result(self, each: dict[str, JSON]) -> SearchResult:
        return SearchResult(
            str(each.get("title", "")), str(each.get("url", "")), str(each.get(self._api.excerpt) or "")
        )
