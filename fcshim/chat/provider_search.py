"""WebSearch by the upstream's provider: one request with the search tool of its API; the results are what it found.

Formats: Anthropic's `web_search_20250305`, OpenAI's `web_search` of the Responses API, Gemini's `google_search`.
"""

import json
from collections.abc import Callable, Iterator
from urllib.parse import quote

import msgspec

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config import Config
from fcshim.errors import ConfigError, ToolError, UpstreamError
from fcshim.events import JSON
from fcshim.tools.builtin.websearch import SearchResult
from fcshim.upstream import upstream_for

PROVIDER = "provider"
"""The value of `web_search` for the search of the upstream's provider."""
_PROMPT = "Search the web once, and say in a few sentences what the pages say: "
_MAX_TOKENS = 2_000
_MAX_EXCERPT = 2_000
"""Characters of what is said about one page."""


class _ProviderApi(msgspec.Struct, frozen=True):
    """The path and body of a request, by model and question; and the reader of titles, addresses and excerpts."""

    path: Callable[[str], str]
    body: Callable[[str, str], JSON]
    read: Callable[[JSON], Iterator[tuple[JSON, JSON, str]]]


def _anthropic_body(model: str, question: str) -> JSON:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    messages = [{"role": "user", "content": question}]
    return {"model": model, "max_tokens": _MAX_TOKENS, "messages": messages, "tools": [tool]}


def _read_anthropic(answer: JSON) -> Iterator[tuple[JSON, JSON, str]]:
    """Read `web_search_tool_result` blocks, and the citations of the text. Raises `ToolError`."""
    for block in _dicts(answer, "content"):
        if block.get("type") == "web_search_tool_result" and isinstance(block.get("content"), dict):
            raise ToolError(f"the provider's search failed: {block['content'].get('error_code')!s:.100}")
        for found in _dicts(block, "content"):
            yield found.get("title"), found.get("url"), ""
        for cited in _dicts(block, "citations"):
            yield cited.get("title"), cited.get("url"), str(cited.get("cited_text") or "")


def _responses_body(model: str, question: str) -> JSON:
    sources = ["web_search_call.action.sources"]
    return {"model": model, "input": question, "tools": [{"type": "web_search"}], "include": sources, "store": False}


def _read_responses(answer: JSON) -> Iterator[tuple[JSON, JSON, str]]:
    """Read the citations of the answer, each with the text before it, and the other sources of the search."""
    items = _dicts(answer, "output")
    for part in (part for item in items for part in _dicts(item, "content")):
        text, last = str(part.get("text") or ""), 0
        for cited in _dicts(part, "annotations"):
            start, end = cited.get("start_index"), cited.get("end_index")
            if isinstance(start, int) and isinstance(end, int):
                yield cited.get("title"), cited.get("url"), text[last:start].strip() or text[start:end]
                last = end
    for item in items:
        action = item.get("action")
        yield from ((None, source.get("url"), "") for source in _dicts(action, "sources"))


def _gemini_body(_: str, question: str) -> JSON:
    return {"contents": [{"role": "user", "parts": [{"text": question}]}], "tools": [{"google_search": {}}]}


def _read_gemini(answer: JSON) -> Iterator[tuple[JSON, JSON, str]]:
    """Read `groundingMetadata`: its pages, and the sentences that each of them supports."""
    for candidate in _dicts(answer, "candidates"):
        metadata = candidate.get("groundingMetadata")
        pages = [chunk.get("web") for chunk in _dicts(metadata, "groundingChunks")]
        for support in _dicts(metadata, "groundingSupports"):
            segment, places = support.get("segment"), support.get("groundingChunkIndices")
            said = str(segment.get("text") or "") if isinstance(segment, dict) else ""
            for at in places if isinstance(places, list) else ():
                page = pages[at] if isinstance(at, int) and 0 <= at < len(pages) else None
                if isinstance(page, dict):
                    yield page.get("title"), page.get("uri"), said
        yield from ((page.get("title"), page.get("uri"), "") for page in pages if isinstance(page, dict))


_APIS: dict[UpstreamApi, _ProviderApi] = {
    "anthropic": _ProviderApi(lambda _: "/messages", _anthropic_body, _read_anthropic),
    "responses": _ProviderApi(lambda _: "/responses", _responses_body, _read_responses),
    "gemini": _ProviderApi(lambda model: f"/models/{quote(model)}:generateContent", _gemini_body, _read_gemini),
}


class ProviderSearch:
    """Searches with the provider's own tool. Raises `ConfigError`.

    `model` finds the name of the model; empty for the first that the upstream lists.
    """

    def __init__(self, config: Config, model: Callable[[], str]) -> None:
        if config.upstream_api not in _APIS:
            raise ConfigError(
                f"--web-search {PROVIDER}: upstreams of the API {config.upstream_api} have no search; expected one of "
                f"{', '.join(_APIS)} (--api), or a search service"
            )
        self._config = config
        self._model = model

    async def search(self, query: str, count: int) -> list[SearchResult]:
        """Return up to `count` results. Raises `ToolError`."""
        api = _APIS[self._config.upstream_api]
        try:
            async with upstream_for(self._config) as upstream:
                model = self._model() or next(iter((await upstream.list_models())[0]), "")
                content = json.dumps(api.body(model, _PROMPT + query)).encode()
                status, body = await upstream.fetch("POST", api.path(model), content)
                if status != 200:
                    raise upstream.kind.codec.decode_error(status, {}, body)
            return _merged(api.read(json.loads(body)))[:count]
        except UpstreamError as error:
            raise ToolError(f"the provider's search failed: {error.message}") from error
        except (ValueError, RecursionError) as error:
            raise ToolError("the provider's answer is not JSON") from error


def _merged(found: Iterator[tuple[JSON, JSON, str]]) -> list[SearchResult]:
    """Return one result for each address, in order, with all that was said about it."""
    pages: dict[str, tuple[str, list[str]]] = {}
    for title, url, said in found:
        if not isinstance(url, str) or not url:
            continue
        known, excerpts = pages.setdefault(url, ("", []))
        pages[url] = (known or (title if isinstance(title, str) else ""), excerpts)
        if said and said not in excerpts:
            excerpts.append(said)
    return [SearchResult(title, url, " ".join(said)[:_MAX_EXCERPT]) for url, (title, said) in pages.items()]


def _dicts(value: JSON, name: str) -> list[dict[str, JSON]]:
    """Return the objects in a field that should be a list of them."""
    found = value.get(name) if isinstance(value, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
