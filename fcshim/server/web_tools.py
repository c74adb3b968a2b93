"""The web tools of one request: a provider's tools for the web, which the proxy runs instead.

Rule: the client's limits hold (hosts, calls per reply). Search goes to the operator's service, pages come through
the guard of addresses. A page is loaded only if the user, a result or another page named it: no user approves these
calls, and an address that the model composes can leak what it has read. The record of a call is kept until the
client gets it.
"""

import contextlib
import re
import socket
from collections.abc import Mapping

from yarl import URL

from fcshim.errors import ToolError
from fcshim.events import JSON, WebErrorCode, WebResult, WebToolUse
from fcshim.messages import ProviderTool, Tool, WebAction
from fcshim.prompt.compose import CHARACTERS_PER_TOKEN
from fcshim.tools.base import NO_CONTEXT, CallContext, Traits
from fcshim.tools.builtin.article import html_to_markdown
from fcshim.tools.builtin.fetch import fetch
from fcshim.tools.builtin.web import format_results
from fcshim.tools.builtin.websearch import SearchService
from fcshim.tools.executor import DEFAULT_MAX_OUTPUT
from fcshim.tools.result import ToolResult, failed, succeeded

_RESULTS = 8
"""Results of one search, as many as hosted searches give."""

_DESCRIPTIONS: dict[WebAction, tuple[str, str]] = {
    "search": ("Search the web. Gives titles, addresses and excerpts of pages.", "query"),
    "fetch": ("Load a web page and give its text.", "url"),
}


class WebTool:
    """A tool of the client's provider; implements `AnyTool`. `uses` gets what each call did, by call id.

    `known_texts` name the addresses of pages that may be loaded; the web tools of one request share them.
    """

    def __init__(self, tool: ProviderTool, action: WebAction, service: SearchService, known_texts: list[str]) -> None:
        description, self._parameter = _DESCRIPTIONS[action]
        schema = {"type": "object", "properties": {self._parameter: {"type": "string"}}, "required": [self._parameter]}
        self.definition = Tool(tool.name, description, schema)
        self.traits = Traits(sensitivity="safe", reads_only=True, source="provider:web", subject=self._parameter)
        self.uses: dict[str, WebToolUse] = {}
        self._tool = tool
        self._action = action
        self._service = service
        self._known_texts = known_texts
        self._uses_left = tool.max_uses
        tokens = tool.max_tokens
        self._max_characters = DEFAULT_MAX_OUTPUT if tokens is None else tokens * CHARACTERS_PER_TOKEN

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Run one call."""
        subject = str(arguments.get(self._parameter, ""))
        code, message, results = await self._run(subject)
        self.uses[context.call_id] = WebToolUse(
            context.call_id, self.definition.name, self._action, subject, results, code
        )
        return failed(message) if code else succeeded(message)

    async def _run(self, subject: str) -> tuple[WebErrorCode | None, str, tuple[WebResult, ...]]:
        """Return the code of a failure or None, the text for the model, and the results."""
        if self._uses_left == 0:
            return "max_uses_exceeded", f"{self.definition.name} may not be called again in this reply.", ()
        if self._uses_left is not None:
            self._uses_left -= 1
        try:
            return await (self._search(subject) if self._action == "search" else self._fetch(subject))
        except ToolError as error:
            return "unavailable" if self._action == "search" else "url_not_accessible", error.message, ()

    async def _search(self, query: str) -> tuple[WebErrorCode | None, str, tuple[WebResult, ...]]:
        found = [result for result in await self._service.search(query, 20) if self._may_use(result.url)][:_RESULTS]
        results = tuple(WebResult(result.title, result.url, result.excerpt) for result in found)
        self._known_texts += [result.url for result in found]
        return None, format_results(found, query), results

    async def _fetch(self, url: str) -> tuple[WebErrorCode | None, str, tuple[WebResult, ...]]:
        if not self._may_use(url):
            return "url_not_allowed", f"{url[:200]} is not among the hosts that may be used.", ()
        if not any(url in text for text in self._known_texts):
            return (
                "url_not_in_prior_context",
                "Only a page that the user, a result or another page names is loaded.",
                (),
            )
        page = await fetch(url)
        if not self._may_use(page.url):  # after redirects
            return "url_not_allowed", f"{url[:200]} leads to a host that may not be used.", ()
        text = (await html_to_markdown(page.text, page.media_type))[: self._max_characters]
        self._known_texts.append(text)
        return None, text or "(the page has no text)", (WebResult(text[:80].partition("\n")[0], page.url, text),)

    def _may_use(self, url: str) -> bool:
        place = _place_of(url)
        if place is None:
            return False
        allowed = self._tool.allowed_domains
        if allowed and not any(_matches(place, domain) for domain in allowed):
            return False
        return not any(_matches(place, domain) for domain in self._tool.blocked_domains)


def _place_of(url: str) -> tuple[str, str] | None:
    """Return the host as it is connected to, and the path as a server reads it; None for no valid address.

    `evil\u3002com` and full-width letters are `evil.com` in IDNA, which the client of HTTP applies; a resolver reads
    `2130706433` as 127.0.0.1.
    """
    try:
        address = URL(url if "://" in url else f"http://{url}")
        host = (address.raw_host or "").lower().rstrip(".")
        path = address.path
    except ValueError:
        return None
    with contextlib.suppress(OSError, UnicodeEncodeError):
        host = socket.inet_ntoa(socket.inet_aton(host))
    return host, re.sub("/+", "/", path).lower()


def _matches(place: tuple[str, str], domain: str) -> bool:
    """Return whether a page belongs to a domain, which stands for its subdomains too and may have a path."""
    found = _place_of(domain)
    if found is None or not found[0]:
        return False
    (host, path), (name, folder) = place, found
    return (host == name or host.endswith(f".{name}")) and path.startswith(folder if folder != "/" else "")
