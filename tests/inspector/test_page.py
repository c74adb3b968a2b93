"""The inspector's page in Chromium: every view, live, by keyboard, with hostile text.

Rule: needs playwright (`pip install playwright`) and a Chromium on PATH (Debian's `chromium`); left out without them.
`FCSHIM_SCREENSHOTS=docs/images` writes the screenshots of the documentation.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scripted import event
from tests.server.proxy import CALL, chat_body, http_client, post_chat, running_inspector, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream, stream_chunks, stream_texts

playwright = pytest.importorskip("playwright.async_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "\x1b[2J\u202edrowssap\u202c javascript:alert(1) </pre></div><style>*{display:none}</style>"
)
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": HOSTILE,
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}


@contextlib.asynccontextmanager
async def opened(url: str, *, width: int = 1280, height: int = 900, scheme: str = "light") -> AsyncIterator:
    """Open the page; no request may leave the machine, and nothing may be logged as an error."""
    problems: list[str] = []
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request", lambda sent: None if sent.url.startswith((url, "data:", "blob:")) else problems.append(sent.url)
        )
        await page.goto(f"{url}/fcshim/")
        await page.wait_for_selector("#live.on")
        yield page
        await browser.close()

    assert [] == problems


async def screenshot(page, name: str) -> None:
    folder = os.environ.get("FCSHIM_SCREENSHOTS")
    if folder:
        await page.screenshot(path=Path(folder) / f"inspector-{name}.png")


async def test_the_list_fills_while_streams_run_and_is_filtered_and_searched():
    replies = [
        stream_texts("Sure. ", CALL[:25], CALL[25:]) if at % 2 else stream_texts("Hello ", "there") for at in range(20)
    ]
    async with (
        raw_upstream(*replies) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
        opened(inspector_url) as page,
    ):
        await asyncio.gather(*(post_chat(url, model=f"model-{at}") for at in range(20)))
        await page.wait_for_selector("tbody tr[data-id] >> nth=19")
        await screenshot(page, "list")
        await page.select_option("select[aria-label=Outcome]", "calls")
        calls = await page.locator("tbody tr").count()
        await page.select_option("select[aria-label=Outcome]", "")
        await page.keyboard.press("Escape")
        await page.locator("#view").focus()
        await page.keyboard.press("/")
        await page.wait_for_timeout(100)
        await page.keyboard.type("model-7")
        found = await page.locator("tbody tr").count()
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".detail")
        heading = await page.locator(".detail h2").first.inner_text()
        await page.keyboard.press("Escape")
        await page.wait_for_selector(".detail", state="detached")

    assert (10, 1) == (calls, found)
    assert "model-7" in heading


@pytest.mark.security
async def test_hostile_text_is_shown_and_does_nothing():
    reply = [HOSTILE, *CALL, "x" * 200_000]
    async with raw_upstream(stream_texts(*reply)) as upstream, running_inspector(upstream.url) as (url, inspector_url):
        messages = [{"role": "user", "content": HOSTILE}]
        await post_chat(url, messages=messages, model=HOSTILE, tools=False)
        async with opened(inspector_url) as page:
            await page.click("tbody tr[data-id]")
            await page.wait_for_selector(".detail .raw")
            hacked = await page.evaluate("window.hacked")
            text = await page.locator(".detail").inner_text()
            scripts = await page.locator("main script, main img, main style").count()

    assert (None, 0) == (hacked, scripts)
    assert "<script>window.hacked" in text
    assert "⟦U+202E⟧" in text
    assert "\u202e" not in text


ATTACKS = {
    "fetch": "fetch(TARGET + 'api/requests').then(answer => answer.text())",
    "fetch without credentials": "fetch(TARGET + 'api/requests', {credentials: 'omit'}).then(answer => answer.text())",
    "fetch without CORS": "fetch(TARGET + 'api/requests', {mode: 'no-cors'}).then(answer => answer.text())"
    ".then(text => text || Promise.reject())",
    "a posted text": "fetch(TARGET + 'api/parse', {method: 'POST', body: '{}'}).then(answer => answer.text())",
    "an event stream": """new Promise((take, fail) => {
        const source = new EventSource(TARGET + 'api/events');
        source.onmessage = take; source.onopen = () => take('open'); source.onerror = fail; })""",
    "an image": """new Promise((take, fail) => {
        const image = new Image();
        image.onload = take; image.onerror = fail; image.src = TARGET + 'api/requests'; })""",
    "a script": """new Promise((take, fail) => {
        const script = document.createElement('script');
        script.onload = take; script.onerror = fail; script.src = TARGET + 'main.js';
        document.head.append(script); })""",
    "a frame": """new Promise((take, fail) => {
        const frame = document.createElement('iframe');
        frame.src = TARGET; frame.onerror = fail;
        frame.onload = () => {
            try { take(frame.contentDocument.body.innerText || fail()); } catch { fail(); }
        };
        document.body.append(frame); })""",
    "a window": """new Promise((take, fail) => {
        const opened = window.open(TARGET);
        setTimeout(() => { try { take(opened.document.body.innerText || fail()); } catch { fail(); } }, 700); })""",
    "storage": "new Promise((take, fail) => sessionStorage.getItem('key') ? take() : fail())",
}
PAGE_OF_UPSTREAM = b"<!doctype html><title>theirs</title><body><script>document.title = 'ran'</script>"


FAIL_IN_ITS_OWN_ORIGIN = {"an image", "a frame", "a window"}
"""The page's own headers forbid these, or it is no image."""


async def successful_attacks(url: str, inspector_url: str) -> set[str]:
    """Run each script in the API's origin while the inspector's page has a key; return those that read something."""
    await post_chat(url, model="secret-model")
    found = set()
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{inspector_url}/fcshim/")
        await page.wait_for_selector("tbody tr[data-id]")
        await page.evaluate("sessionStorage.setItem('key', 'secret-key')")
        for name, code in ATTACKS.items():
            await page.goto(f"{url}/health")  # a document without a policy of its own
            script = code.replace("TARGET", f"'{inspector_url}/fcshim/'")
            if await page.evaluate(f"() => ({script}).then(() => true, () => false)"):
                found.add(name)
        await browser.close()
    return found


@pytest.mark.security
async def test_no_script_in_the_origin_of_the_api_reads_the_inspector():
    """Such a script cannot run there; if one could, it would find another origin."""
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        found = await successful_attacks(url, inspector_url)

    assert not found


@pytest.mark.security
async def test_another_asgi_server_has_one_origin_which_the_sandbox_alone_protects():
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url, inspect=True) as url:
        found = await successful_attacks(url, url)

    assert {*ATTACKS} - FAIL_IN_ITS_OWN_ORIGIN == found


@pytest.mark.security
async def test_a_page_of_the_upstream_runs_no_script_and_has_no_origin():
    async with (
        raw_upstream(fixed_reply(200, PAGE_OF_UPSTREAM, "Content-Type: text/html")) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
        playwright.async_playwright() as driver,
    ):
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{url}/v1/files")
        title = await page.title()
        at_inspector = await page.goto(f"{inspector_url}/v1/files")
        await browser.close()

    assert ("theirs", 404) == (title, at_inspector.status)
    assert "/v1/files" in "".join(each.request_line for each in upstream.requests)


async def test_the_curl_command_goes_to_the_proxy():
    async with (
        raw_upstream(stream_texts("Hi")) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        await post_chat(url, model="m")
        async with opened(inspector_url) as page:
            await page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }")
            await page.click("tbody tr[data-id]")
            await page.click("text=curl")
            copied = await page.evaluate("window.copied")

    assert f"'{url}/v1/chat/completions'" in copied


async def test_a_request_is_coloured_and_its_slider_goes_through_time():
    broken = '<function_call>\n{"name": "add", "arguments": {"a": ]}\n</function_call>'
    pieces = [CALL[at : at + 6] for at in range(0, len(CALL), 6)]
    async with (
        raw_upstream(stream_texts("I add. ", broken), stream_texts("I add. ", *pieces)) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
        http_client(url) as client,
    ):
        await client.post("/v1/chat/completions", json={**chat_body(stream=False, model="llama-3"), "tools": [TOOL]})
        async with opened(inspector_url, height=1100) as page:
            await page.click("tbody tr[data-id]")
            await page.wait_for_selector(".attempt")
            attempts = await page.locator(".attempt").count()
            offered = await page.locator("table.categories").inner_text()
            last = page.locator(".attempt").nth(1)
            names = await last.locator(".raw .name").all_inner_texts()
            await screenshot(page, "request")
            slider = last.locator("input[type=range]")
            await slider.focus()
            await slider.press("Home")
            hidden = await last.locator(".raw .later").count()
            await slider.press("End")
            shown = await last.locator(".raw .later").count()
            await page.click("text=open in playground")
            await page.wait_for_selector("section[aria-label=Playground] .events li")
            given = await page.locator('textarea[aria-label="The model\'s text"]').input_value()

    assert 2 == attempts
    assert ["the client's", "add"] == offered.split("\t")
    assert "add" == "".join(names)
    assert hidden > 5
    assert 0 == shown
    assert CALL in given


async def test_the_next_request_opens_by_a_key_and_choices_stand_beside_each_other():
    two = [
        event(choices=[{"index": at, "delta": {"content": f"choice {at}"}, "finish_reason": "stop"}]) for at in range(2)
    ]
    async with (
        raw_upstream(stream_texts("one"), stream_chunks(*two, b"data: [DONE]\n\n")) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        await post_chat(url, model="first")
        await post_chat(url, model="second", n=2)
        async with opened(inspector_url) as page:
            await page.click("tbody tr[data-id='2']")
            await page.wait_for_selector(".detail h2:has-text('second')")
            headings = await page.locator(".attempt h2").all_inner_texts()
            await page.locator("#view").focus()
            await page.keyboard.press("j")
            await page.wait_for_selector(".detail h2:has-text('first')")
            why = await page.locator(".detail .why").inner_text()

    assert "Why there is no call: The model wrote no call, and the reply names no offered tool." == why
    assert ["What the model wrote (choice 0)", "What the model wrote (choice 1)"] == headings


async def test_the_playground_follows_what_is_typed_and_models_are_listed():
    async with (
        raw_upstream(*(stream_texts("ok") for _ in range(5))) as upstream,
        running_inspector(upstream.url) as (_, inspector_url),
        opened(inspector_url, scheme="dark") as page,
    ):
        await page.click("nav a:has-text('Playground')")
        await page.wait_for_selector(".events li")
        await page.fill(
            'textarea[aria-label="The model\'s text"]', 'Hi <function_call>{"name": "typed"}</function_call>'
        )
        await page.wait_for_selector(".raw .name:has-text('typed')")
        await screenshot(page, "playground")
        await page.fill("textarea[aria-label='Tools (JSON)']", "[{")
        await page.wait_for_selector(".bad:not(:empty)")

    assert upstream.requests is not None


@pytest.mark.parametrize(("width", "height"), [(360, 740), (3840, 2160)])
async def test_no_size_of_screen_scrolls_sideways(width, height):
    async with (
        raw_upstream(stream_texts("x" * 50_000)) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        await post_chat(url, model="a-very-long-model-name/" * 5)
        async with opened(inspector_url, width=width, height=height) as page:
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            on_list = await page.evaluate(overflow)
            await page.click("tbody tr[data-id]")
            await page.wait_for_selector(".detail")
            on_detail = await page.evaluate(overflow)
            await screenshot(page, f"{width}")

    assert (0, 0) == (on_list, on_detail)


async def test_five_thousand_requests_and_a_line_of_megabytes_stay_usable():
    async with (
        raw_upstream(*(stream_texts("ok") for _ in range(40)), stream_texts("y" * 2_000_000)) as upstream,
        running_inspector(upstream.url, inspect_bytes=2**26) as (url, inspector_url),
    ):
        for at in range(41):
            await post_chat(url, model=f"m{at}")
        async with opened(inspector_url) as page:
            await page.route("**/fcshim/api/requests", _five_thousand)
            await page.reload()
            await page.wait_for_selector(".bar .dim:has-text('5,000')")
            rows = await page.locator("tbody tr").count()
            await page.goto(f"{inspector_url}/fcshim/#/requests/41")
            await page.wait_for_selector(".detail .raw")
            size = await page.evaluate("document.body.innerText.length")

    assert 200 == rows
    assert size < 100_000


async def _five_thousand(route) -> None:
    answer = await (await route.fetch()).json()
    first = answer["requests"][0]
    many = [{**first, "id": str(5_000 - at)} for at in range(5_000)]
    await route.fulfill(json={"requests": many})
