"""Makes the golden corpus by running the whole proxy over HTTP.

The proxy is a black box here: the corpus depends on `Config` and `create_app` alone, so it survives a redesign of what
is between them. Random ids and times are replaced by fixed ones; every other byte is compared.
"""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path

from fcshim.config import ModelOverrides
from fcshim.parse.dialects import DIALECTS
from tests.scripted import Script, model_list, scripted_upstream, text_reply
from tests.server.proxy import CHAT, http_client, running_proxy

DATA = Path(__file__).parent
SCENARIOS = ("text", "call", "two_calls", "text_and_call", "reasoning", "cut_off", "error", "broken", "usage")
LIMIT = 300.0
"""Seconds that one proxy may take for all its requests; the whole corpus takes a few on an idle machine."""

_RANDOM_ID = re.compile(r"(?<=[a-z]_)[0-9a-f]{20,40}|(?<=[a-z]-)[0-9a-f]{20,40}")
_TIMES = (
    (re.compile(r'("(?:created|created_at|completed_at)": ?)\d{10}'), r"\g<1>1700000000"),
    (re.compile(r'("created_at": ?)"[^"]+"'), r'\1"2023-11-14T22:13:20Z"'),
    (re.compile(r'("(?:total|load|prompt_eval|eval)_duration": ?)\d+'), r"\g<1>1"),
)


@dataclass(frozen=True)
class Upstream:
    """One kind of upstream, and whether it calls tools by itself."""

    api: str
    tools: str

    @property
    def name(self) -> str:
        return f"{self.api}-{self.tools}"


UPSTREAMS = (
    Upstream("openai", "prompt"),
    Upstream("openai", "native"),
    Upstream("llamacpp", "prompt"),
    Upstream("responses", "native"),
    Upstream("anthropic", "native"),
    Upstream("gemini", "native"),
    Upstream("ollama", "native"),
)
"""Six kinds of upstream; OpenAI's API both ways."""


def load(name: str) -> dict:
    """Read a data file of the corpus."""
    return json.loads((DATA / name).read_text())


async def wire(upstream: Upstream) -> dict[str, dict[str, str]]:
    """Run every request of `clients.json` against every reply of one upstream. Gives {client: {case: bytes}}."""
    replies = load(f"upstream/{upstream.name}.json")
    clients = load("clients.json")
    cases = [(client, scenario, mode) for client in clients for scenario in SCENARIOS for mode in ("streamed", "whole")]
    scripts = [Script((replies[scenario]["body"].encode(),), replies[scenario]["status"]) for _, scenario, _ in cases]
    found: dict[str, dict[str, str]] = {client: {} for client in clients}
    async with (
        scripted_upstream(*scripts, listing=model_list("m")) as scripted,
        running_proxy(scripted.url, limit=LIMIT, upstream_api=upstream.api, tools=upstream.tools, max_retries=0) as url,
        http_client(url) as http,
    ):
        for client, scenario, mode in cases:
            request = clients[client]
            path = request["path"][mode] if isinstance(request["path"], dict) else request["path"]
            body = request["body"] | (request["streamed"] if mode == "streamed" else request["whole"])
            response = await http.post(path, json=body, headers=request["headers"])
            kind = response.headers["content-type"]
            found[client][f"{scenario} {mode}"] = fixed(f"{response.status_code} {kind}\n{response.text}")
        for client, asked in zip([client for client, _, _ in cases], scripted.requests, strict=True):
            found[client].setdefault("request", fixed(f"{asked.path}\n{json.dumps(asked.body, ensure_ascii=False)}"))
    return found


async def prompts() -> dict[str, str]:
    """Give the prompts of all conversations as each dialect writes them. Gives {dialect: text}."""
    conversations = load("conversations.json")
    overrides = {name: ModelOverrides(settings={"dialect": name}) for name in DIALECTS}
    asked = [(dialect, name) for dialect in DIALECTS for name in conversations]
    pages: dict[str, list[str]] = {dialect: [] for dialect in DIALECTS}
    async with (
        scripted_upstream(*[text_reply("Ok.")] * len(asked), listing=model_list("m")) as scripted,
        running_proxy(scripted.url, limit=LIMIT, models=overrides, max_retries=0) as url,
        http_client(url) as client,
    ):
        for dialect, name in asked:
            response = await client.post(CHAT, json={"model": dialect, **conversations[name]})
            assert response.status_code == 200, response.text
    for (dialect, name), request in zip(asked, scripted.requests, strict=True):
        pages[dialect].append(f"######## {name}\n" + "".join(map(_page, request.body["messages"])))
    return {dialect: "".join(page) for dialect, page in pages.items()}


def _page(message: dict) -> str:
    content = message["content"]
    return f"==== {message['role']}\n{content if isinstance(content, str) else json.dumps(content)}\n"


def fixed(text: str) -> str:
    """Replace random ids by numbers in order of appearance, and times by a fixed one."""
    numbers: dict[str, str] = {}
    text = _RANDOM_ID.sub(lambda found: numbers.setdefault(found[0], f"id{len(numbers)}"), text)
    for pattern, replacement in _TIMES:
        text = pattern.sub(replacement, text)
    return text


async def files() -> dict[str, str]:
    """Make the whole corpus. Gives {path below this folder: text}."""
    made: dict[str, str] = {}
    for upstream in UPSTREAMS:
        for client, cases in (await wire(upstream)).items():
            made[f"wire/{upstream.name}/{client}.txt"] = "".join(
                f"######## {case}\n{text}\n" for case, text in cases.items()
            )
    for dialect, text in (await prompts()).items():
        made[f"prompts/{dialect}.txt"] = text
    return made


def make() -> dict[str, str]:
    """Make the whole corpus, in an event loop of its own."""
    return asyncio.run(files())
