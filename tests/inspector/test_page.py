"""The inspector's page in Chromium: every view, live, by keyboard, with hostile text.

Rule: needs playwright (`pip install playwright`) and a Chromium on PATH (Debian's `chromium`); left out without them.
`FCSHIM_SCREENSHOTS=docs/images` writes the pictures of the documentation.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fcshim.config import Secret
from tests.scripted import ROLE, event, text_chunk
from tests.server.proxy import CALL, chat_body, http_client, post_chat, running_inspector, running_proxy
from tests.server.raw_upstream import fixed_reply, hang, raw_upstream, stream_chunks, stream_texts, stream_then

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

    assert "Why there is no call: The model wrote no call, and the reply names no offered tool." in why
    assert "What helps: fcshim doctor" in why
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
        await page.fill("textarea[aria-label='Tools (JSON)']", "[{")
        await page.wait_for_selector(".bad:not(:empty)")

    assert upstream.requests is not None


WEATHER = '<function_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</function_call>'
BROKEN = '<function_call>\n{"name": "add", "arguments": {"a": ]}\n</function_call>'
INVENTED = "<function_result>\n3\n</function_result>"
OFFERED = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {key: {}}}}}
    for name, key in (("add", "a"), ("get_weather", "city"))
]
VIEWS = {
    "list": ("#/requests", "tbody tr.inner"),
    "request": ("#/requests/3", ".detail[data-id='3']"),
    "why": ("#/requests/4", ".detail[data-id='4'] .why"),
    "playground": ("#/playground", ".events li"),
}
"""Of each picture: its address, and what it waits for."""


async def ask_for_pictures(client) -> None:
    """Send the requests that the documentation's pictures show."""
    umbrella = {"role": "user", "content": "What is the weather in Paris today, and do I need an umbrella?"}
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    answered = [umbrella, {"role": "assistant", "tool_calls": [call]}]
    answered.append({"role": "tool", "tool_call_id": "c1", "content": "sunny, 21 degrees"})
    words = ("Add 1 and 2, then write <function_call> here", "Sum of 1 and 2?", "What is 1 + 2?", "Add all numbers")
    for messages in ([umbrella], answered, *(asks(each)["messages"] for each in words)):
        body = chat_body(model="qwen2.5-coder", messages=messages, stream=messages[-1]["content"] != words[0])
        await client.post("/v1/chat/completions", json=body | {"tools": OFFERED})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
async def test_each_view_fits_into_its_screen(width, height, scheme):
    cut = [CALL[at : at + 7] for at in range(0, len(CALL), 7)]
    replies = [("Let me look. ", WEATHER), ("It is sunny, ", "21 degrees."), ("I add. ", BROKEN), ("I add. ", *cut)]
    replies += [("<think>The user wants a sum. ", *cut), (INVENTED,), (INVENTED,)]
    plays = [*(stream_texts(*each) for each in replies), fixed_reply(500, b'{"error": "it crashed"}')]
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    found = {}
    async with (
        raw_upstream(*plays) as upstream,
        running_inspector(upstream.url, constrain="off") as (url, inspector_url),
        http_client(url) as client,
    ):
        await ask_for_pictures(client)
        async with opened(inspector_url, width=width, height=height, scheme=scheme) as page:
            await page.click("button.fold")
            for name, (place, awaited) in VIEWS.items():
                await page.goto(f"{inspector_url}/fcshim/{place}")
                await page.wait_for_selector(awaited)
                found[name] = await page.evaluate(overflow)
                if (width, scheme) == (1280, "light") and name != "why":
                    await screenshot(page, name)

    assert dict.fromkeys(VIEWS, 0) == found


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
    many = [{**first, "id": str(5_000 - at), "conversation": at} for at in range(5_000)]
    await route.fulfill(json={"requests": many})


LONG_WORDS = "a question with many words " * 6 + "and_a_word_without_any_place_to_break_it" * 3
CUT_OFF = """() => [...document.querySelectorAll("main *")].filter((each) => each.scrollWidth > each.clientWidth + 1 &&
    getComputedStyle(each).overflow !== "visible").map((each) => each.className)"""


def asks(text: str) -> dict:
    return {"messages": [{"role": "user", "content": text}]}


async def test_a_row_has_the_users_words_its_status_and_error_and_is_not_cut_off():
    call, crash = CALL.replace("add", "a_tool_with_a_long_name"), fixed_reply(500, b'{"error": "it crashed"}')
    offered = {"tools": [{"type": "function", "function": {"name": "a_tool_with_a_long_name"}}]}
    async with (
        raw_upstream(stream_texts(call), crash) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
        http_client(url) as client,
    ):
        for at in range(2):
            await client.post("/v1/chat/completions", json=chat_body(**asks(f"{at} {LONG_WORDS}")) | offered)
        async with opened(inspector_url) as page:
            await page.wait_for_selector("tbody tr[data-id='2']")
            failed = await page.locator("tbody tr[data-id='2']").inner_text()
            called = await page.locator("tbody tr[data-id='1']").inner_text()
            common = await page.locator(".common").inner_text()
            heads = await page.locator("thead th").all_inner_texts()
            cut = await page.evaluate(CUT_OFF)
            width = await page.evaluate("document.documentElement.scrollWidth")

    assert "1 " + LONG_WORDS.strip()[:150] in failed
    assert {"error", "502"} <= set(failed.split())
    assert "it crashed" in failed
    assert "a_tool_with_a_long_name" in called
    assert "API openai_chat" in common
    assert "model m" in common
    assert ["time", "request", "outcome", "tools called", "tokens", "duration"] == heads
    assert ([], 1280) == (cut, width)


async def test_columns_that_say_nothing_are_left_out_and_facts_that_differ_stand_in_the_rows():
    async with (
        raw_upstream(fixed_reply(400, b'{"error": "no"}')) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        for model in ("first", "second"):
            await post_chat(url, model=model)
        async with opened(inspector_url) as page:
            await page.wait_for_selector("tbody tr[data-id='2']")
            rows = await page.locator("tbody tr").all_inner_texts()
            heads = await page.locator("thead th").all_inner_texts()
            common = await page.locator(".common").inner_text()

    assert ["time", "request", "outcome", "duration"] == heads
    assert ["second", "first"] == [name for row in rows for name in ("first", "second") if name in row]
    assert "model" not in common


async def test_a_conversation_is_one_row_that_unfolds_and_keys_go_into_it():
    first = {"role": "user", "content": "Hi"}
    more = [first, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "More"}]
    async with (
        raw_upstream(stream_texts("Hello")) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        for messages in ([first], more, [{"role": "user", "content": "Other"}]):
            await post_chat(url, model="m", messages=messages)
        async with opened(inspector_url) as page:
            await page.wait_for_selector("button.fold")
            rows = page.locator("tbody tr")
            folded = await rows.all_inner_texts()
            await page.click("button.fold")
            unfolded = await rows.count()
            await page.click("button.fold")
            await page.goto(f"{inspector_url}/fcshim/#/requests/1")
            await page.wait_for_selector(".detail[data-id='1']")
            await page.locator("#view").focus()
            await page.keyboard.press("k")
            await page.wait_for_selector(".detail[data-id='2']")
            await page.keyboard.press("Escape")
            await page.uncheck("label:has-text('conversations') input")
            flat = await rows.count()

    assert ["Other", "More"] == [word for row in folded for word in ("Other", "More", "Hi") if word in row]
    assert (3, 3) == (unfolded, flat)


async def test_the_search_finds_words_of_replies():
    async with (
        raw_upstream(stream_texts("Lis", "bon"), stream_texts("Rome")) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        for at in range(2):
            await post_chat(url, model="m", **asks(f"question {at}"))
        async with opened(inspector_url) as page:
            await page.fill("input[type=search]", "lisbon")
            await page.wait_for_selector("tbody tr:has-text('question 0')")
            await page.wait_for_selector(".bar .dim:has-text('1 of 2')")


async def test_a_running_request_counts_its_time_and_shows_what_comes():
    release = asyncio.Event()

    async def rest(peer) -> None:
        await release.wait()
        await peer.chunk(text_chunk("and the rest"))
        await hang(peer)

    async with (
        raw_upstream(stream_then(ROLE, then=rest)) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        posted = asyncio.create_task(post_chat(url, model="m"))
        async with opened(inspector_url) as page:
            await page.wait_for_selector("td[data-running]:has-text('1 s')")
            await page.click("tbody tr[data-id]")
            await page.wait_for_selector(".detail")
            waiting = await page.locator(".detail").inner_text()
            release.set()
            await page.wait_for_selector("#got:has-text('and the rest')")
            coming = await page.locator(".detail").inner_text()
        posted.cancel()

    assert "Nothing has come yet" in waiting
    assert "no status yet, still running" in waiting
    assert "running for" in coming
    assert "nothing of this attempt" not in waiting + coming
    assert "broke off" not in coming


@pytest.mark.security
async def test_the_message_and_the_difference_show_hostile_text_and_do_nothing():
    wrong = CALL.replace("add", "subtract")
    async with (
        raw_upstream(stream_texts(HOSTILE, wrong), stream_texts(HOSTILE, CALL)) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        await post_chat(url, model="m", **asks(HOSTILE), stream=False)
        async with opened(inspector_url) as page:
            row = await page.locator("tbody tr").inner_text()
            await page.click("tbody tr[data-id]")
            await page.wait_for_selector(".diff ins")
            changes = await page.locator(".diff :is(ins, del)").all_inner_texts()
            message = await page.locator("#got .message").inner_text()
            keys = await page.locator(".diff >> xpath=preceding-sibling::div[1]").inner_text()
            hacked = await page.evaluate("window.hacked")
            scripts = await page.locator("main script, main img, main style").count()

    assert ["subtract", "add"] == changes
    assert "only in the attempt before" in keys
    assert "<script>window.hacked" in message
    assert '{"a": 1, "b": 2}' in message
    assert "<script>window.hacked" in row
    assert (None, 0) == (hacked, scripts)


async def test_every_colour_that_occurs_has_its_meaning():
    pieces = ["<think>Hm.</think>I add. ", CALL.replace('"b": 2', "b: 2")]
    async with (
        raw_upstream(stream_texts(*pieces)) as upstream,
        running_inspector(upstream.url) as (url, inspector_url),
    ):
        await post_chat(url, model="m", **asks("Write <function_call> here"))
        async with opened(inspector_url) as page:
            await page.click("tbody tr[data-id]")
            await page.wait_for_selector(".detail")
            used = await page.evaluate(
                """() => [...new Set([...document.querySelectorAll(
                ".raw span[data-chunk], .timing span, .raw span.escaped")].map((each) => each.classList[0]))]"""
            )
            explained = await page.locator(".legend .entry").all_inner_texts()

    assert {"reasoning", "text", "marker", "name", "arguments", "repaired", "escaped", "prompt", "stream"} <= set(used)
    assert set(used) <= {each.split()[0] for each in explained}
    assert all(len(each.split()) > 2 for each in explained)


async def test_the_playground_begins_with_the_settings_of_serve_and_takes_those_of_a_request():
    async with (
        raw_upstream(stream_texts("<think>" + CALL)) as upstream,
        running_inspector(upstream.url, dialect="hermes", rescue=False, reasoning="recover") as (url, inspector_url),
    ):
        await post_chat(url, model="m")
        async with opened(inspector_url) as page:
            await page.click("nav a:has-text('Playground')")
            await page.wait_for_selector(".events li")
            served = await page.evaluate(SETTINGS)
            await page.select_option("select[aria-label=Dialect]", "function_call")
            await page.select_option("select[aria-label='Calls inside reasoning']", "promote")
            await page.fill('textarea[aria-label="The model\'s text"]', f"<think>{CALL}</think>")
            await page.wait_for_selector(".events li:has-text('tool_call_end')")
            await page.click("text=settings of serve")
            await page.wait_for_selector(".events li:has-text('tool_call_end')", state="detached")
            reset = await page.evaluate(SETTINGS)

    assert ["hermes", False, "recover", "stream"] == served
    assert served == reset


SETTINGS = """() => [document.querySelector("select[aria-label=Dialect]").value,
    document.querySelector("label:has(input[type=checkbox]) input").checked,
    document.querySelector("select[aria-label='Calls inside reasoning']").value,
    document.querySelector("select[aria-label=Arguments]").value]"""


async def test_a_request_is_sent_again_in_another_dialect_and_its_answer_opens():
    hermes = CALL.replace("function_call", "tool_call")
    async with (
        raw_upstream(stream_texts("No."), stream_texts(hermes)) as upstream,
        running_inspector(upstream.url, api_keys=(Secret("secret-key"),)) as (url, inspector_url),
    ):
        await post_chat(url, model="m", headers={"authorization": "Bearer secret-key"})
        async with opened_with_key(inspector_url, "secret-key") as page:
            await page.click("tbody tr[data-id='1']")
            await page.click("summary:has-text('send again')")
            await page.select_option("select[aria-label='Dialect of the new request']", "hermes")
            await page.fill("input[aria-label='Model of the new request']", "another")
            await page.click(".resend button")
            await page.wait_for_selector(".detail[data-id='2'] #got:has-text('add')")
            shown = await page.locator(".detail").inner_text()

    assert "Sent again from request 1." in shown
    assert "openai_chat · another" in shown
    assert "hermes" in shown


@contextlib.asynccontextmanager
async def opened_with_key(url: str, key: str) -> AsyncIterator:
    """Open the page of a proxy that needs a key, and give it the key when it asks."""
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{url}/fcshim/")
        await page.fill("dialog input", key)
        await page.click("dialog button")
        await page.wait_for_selector("#live.on")
        yield page
        await browser.close()
