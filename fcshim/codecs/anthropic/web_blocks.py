"""The blocks of the provider's web tools, for calls that the proxy ran.

Rule: a call is two blocks, the use and its result; a failure is a result with the API's error code. Fields that the API
encrypts for its own later use hold the Base64 of the excerpt; clients only send them back.
"""

import base64
from collections.abc import Sequence

from fcshim.events import JSON, WebResult, WebToolUse

_ID_PREFIX = "srvtoolu_"
DIRECT_CALLER: dict[str, JSON] = {"caller": {"type": "direct"}}
"""Who makes a call: the model itself, not a program that it runs at the provider."""


def web_blocks(use: WebToolUse) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """Return the `server_tool_use` block and its result block."""
    name = "web_search" if use.action == "search" else "web_fetch"
    parameter = "query" if use.action == "search" else "url"
    use_id = _ID_PREFIX + use.tool_call_id.removeprefix("toolu_")
    called = {"type": "server_tool_use", "id": use_id, "name": name, "input": {parameter: use.subject}, **DIRECT_CALLER}
    result = {"type": f"{name}_tool_result", "tool_use_id": use_id, "content": _content(use, name), **DIRECT_CALLER}
    return called, result


def _content(use: WebToolUse, name: str) -> JSON:
    if use.error is not None:
        return {"type": f"{name}_tool_result_error", "error_code": use.error}
    return [_search_result(result) for result in use.results] if use.action == "search" else _page(use.results)


def _search_result(result: WebResult) -> dict[str, JSON]:
    excerpt = base64.b64encode(result.text.encode("utf-8", "replace")).decode()
    fields = {"title": result.title, "url": result.url, "encrypted_content": excerpt, "page_age": None}
    return {"type": "web_search_result", **fields}


def _page(results: Sequence[WebResult]) -> dict[str, JSON]:
    source = {"type": "text", "media_type": "text/plain", "data": results[0].text}
    document = {"type": "document", "source": source, "title": results[0].title, "citations": None}
    return {"type": "web_fetch_result", "url": results[0].url, "content": document, "retrieved_at": None}


def use_counts(uses: Sequence[WebToolUse]) -> JSON:
    """Return the counts of the calls; None without any."""
    searches = sum(use.action == "search" for use in uses)
    counts = {"web_search_requests": searches, "web_fetch_requests": len(uses) - searches}
    return counts if uses else None
