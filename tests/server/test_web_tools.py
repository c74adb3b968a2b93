"""The hosts that a client allows or forbids to its provider's web tools."""

import pytest

from fcshim.messages import ProviderTool
from fcshim.server.web_tools import WebTool
from fcshim.tools.builtin.websearch import SearchService

pytestmark = pytest.mark.security


async def is_blocked(url: str, **domains: tuple[str, ...]) -> bool:
    """Return whether a page is refused because of its host, before anything is connected to."""
    tool = ProviderTool(name="fetch", type="web_fetch", action="fetch", **domains)
    web_tool = WebTool(tool, "fetch", SearchService("searxng", url="https://search.invalid"), [])
    await web_tool.call({"url": url})
    (use,) = web_tool.uses.values()
    return use.error == "url_not_allowed"


@pytest.mark.parametrize(
    "url",
    [
        *("http://evil.com/", "https://sub.evil.com:8443/x", "http://EVIL.com./", "evil.com"),
        *("http://evil\u3002com", "http://evil\uff0ecom/", "http://\uff45\uff56\uff49\uff4c.com/x"),
        *("http://sub\uff61evil.com/", "http://u:p@evil.com/", "http://evil.com\\@good.com/", "http://e\xadvil.com/"),
    ],
)
async def test_a_blocked_host_is_blocked_in_every_spelling_that_is_connected_to_it(url):
    assert await is_blocked(url, blocked_domains=("evil.com",))


@pytest.mark.parametrize("domain", ["evil\u3002com", "\uff25vil.com", "https://evil.com", "evil.com."])
async def test_the_client_may_spell_the_host_that_it_blocks_in_every_way(domain):
    assert await is_blocked("http://www.evil.com/x", blocked_domains=(domain,))


@pytest.mark.parametrize("url", ["http://0x08.8.8.8/", "http://134744072/", "http://010.8.2056/"])
async def test_an_address_is_blocked_in_every_notation(url):
    assert await is_blocked(url, blocked_domains=("8.8.8.8",))


@pytest.mark.parametrize("path", ["/private/x", "//private/x", "/a/../private/x", "/%70rivate/x", "/%2e/private"])
async def test_a_blocked_folder_is_blocked_in_every_spelling(path):
    assert await is_blocked(f"http://a.com{path}", blocked_domains=("a.com/private",))


@pytest.mark.parametrize("url", ["http://b\xfccher.example/", "http://xn--bcher-kva.example/x"])
async def test_an_allowed_host_is_allowed_in_both_forms_of_its_name(url):
    assert not await is_blocked(url, allowed_domains=("b\xfccher.example",))
    assert await is_blocked(url, allowed_domains=("bucher.example",))
