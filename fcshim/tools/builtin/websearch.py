"""Web search services: Tavily, Brave, Jina, SearXNG, and any address that answers with JSON.

A service is a row of a table: how to build its request, and which fields of its response have the results. An
address is asked like a SearXNG; the results may have the usual names of other services too.
"""

import json
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from fcshim.config import Config
from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON

ServiceKind: TypeAlias = Literal["tavily", "brave", "jina", "searxng"]

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


_SIZE_LIMIT = 5 * 2**20
"""Bytes of a response: hundreds of results."""
_RESULT_LISTS = ("results", "data", "items", "organic", "organic_results", "webPages.value", "web.results")
_TITLES = ("title", "name")
_URLS = ("url", "link", "href")
_EXCERPTS = ("content", "description", "snippet", "excerpt", "body", "text")
"""The names that services use for the parts of their results."""


def _tavily(url: str, key: str, query: str, count: int) -> httpx.Request:
    body = {"query": query, "max_results": count}
    return httpx.Request("POST", f"{url}/search", json=body, headers={"Authorization": f"Bearer {key}"})


def _brave(url: str, key: str, query: str, count: int) -> httpx.Request:
    headers = {"Accept": "application/json", "X-Subscription-Token": key}
    params: dict[str, str | int] = {"q": query, "count": count, "text_decorations": "false"}
    return httpx.Request("GET", f"{url}/res/v1/web/search", params=params, headers=headers)


def _jina(url: str, key: str, query: str, _: int) -> httpx.Request:
    headers = {"Accept": "application/json", "X-Respond-With": "no-content"}
    return httpx.Request("GET", f"{url}/", params={"q": query}, headers=headers | {"Authorization": f"Bearer {key}"})


def _searxng(url: str, key: str, query: str, _: int) -> httpx.Request:
    """Ask a SearXNG by its root, or any other service by an address with a path."""
    address = httpx.URL(url)
    address = address if address.path.strip("/") else address.copy_with(path="/search")
    headers = {"Accept": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    return httpx.Request("GET", address.copy_merge_params({"q": query, "format": "json"}), headers=headers)


_SERVICES: dict[ServiceKind, _ServiceApi] = {
    "tavily": _ServiceApi("https://api.tavily.com", _tavily, "results", "content"),
    "brave": _ServiceApi("https://api.search.brave.com", _brave, "web.results", "description"),
    "jina": _ServiceApi("https://s.jina.ai", _jina, "data", "description"),
    "searxng": _ServiceApi("", _searxng, "results", "content"),
}


_FORBIDDEN_HINTS = {"searxng": " A SearXNG answers so if its settings.yml does not name json in search.formats."}
"""By service, what its status 403 usually means (docs.searxng.org/dev/search_api)."""


class SearchBackend(Protocol):
    """Whatever searches the web: a service, or the provider of the model."""

    async def search(self, query: str, count: int) -> list[SearchResult]:
        """Return up to `count` results. Raises `ToolError`."""
        ...


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
                response = await client.send(request, stream=True)
                try:
                    answer = json.loads(await self._read(response.raise_for_status()))
                finally:
                    await response.aclose()
        except httpx.HTTPStatusError as error:
            status = f"{error.response.status_code} {error.response.reason_phrase}"
            hint = _FORBIDDEN_HINTS.get(self._kind, "") if error.response.status_code == 403 else ""
            raise ToolError(f"{self._kind} answered {status}.{hint}") from error
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise ToolError(f"{self._kind} did not answer: {type(error).__name__}") from error
        return self._read_results(answer)[:count]

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for data in response.aiter_bytes():
            body += data
            if len(body) > _SIZE_LIMIT:
                raise ToolError(f"{self._kind} answered with more than {_SIZE_LIMIT} bytes.")
        return bytes(body)

    def _read_results(self, answer: JSON) -> list[SearchResult]:
        listed = answer if isinstance(answer, list) else _first(answer, (self._api.results, *_RESULT_LISTS), list)
        if listed is None:
            raise ToolError(f"{self._kind} gave no list of results.")
        fields = (_TITLES, _URLS, (self._api.excerpt, *_EXCERPTS))
        results = []
        for each in listed:
            if isinstance(each, dict):
                title, url, excerpt = (_first(each, names, str) or "" for names in fields)
                results.append(SearchResult(title, url, excerpt))
        return results


def configured_search(config: Config) -> SearchService | None:
    """Return the service of the settings, None without one. Raises `ConfigError`."""
    key = config.web_search_key.reveal() if config.web_search_key else ""
    return None if config.web_search is None else search_service(config.web_search, key)


def search_service(name: str, key: str = "") -> SearchService:
    """Return the service that a setting names: tavily, brave, jina, or the URL of a SearXNG or the like.

    Raises `ConfigError`.
    """
    match name:
        case "tavily" | "brave" | "jina":
            return SearchService(name, key=key)
        case url if url.startswith(("http://", "https://")) and urlsplit(url).hostname:
            return SearchService("searxng", key=key, url=url)
    hint = ", which only fcshim chat can use" if name == "provider" else ""
    raise ConfigError(
        f"web search: expected tavily, brave, jina or the URL of a search service, got {name!r:.80}{hint}"
    )


T = TypeVar("T")


def _first(value: JSON, paths: Iterable[str], kind: type[T]) -> T | None:
    """Return the first value of that type at one of these paths, None without one."""
    for path in paths:
        found = value
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, kind) and found:
            return found
    return None
