"""What people write by hand: a prompt, a regular expression, `json.loads`, and then `json_repair`."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self, Unpack

import httpx
import json_repair

from benchmarks.models.relay import TIMEOUT
from fcshim.errors import UpstreamError
from fcshim.events import JSON, ToolCallEnd, Usage
from fcshim.messages import Tool
from fcshim.reply import Reply
from fcshim.sampling import Sampling

_PROMPT = Path(__file__).with_name("naive_prompt.txt").read_text(encoding="utf-8")
_CALL = re.compile(r"<tool_call>(.*?)(</tool_call>|$)", re.DOTALL)


class NaiveClient:
    """Requests replies with the hand-written prompt. Use it as a context manager."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._http.aclose()

    async def complete(
        self, messages: Sequence[dict[str, JSON]], tools: Sequence[Tool], **sampling: Unpack[Sampling]
    ) -> Reply:
        """Return a reply with the calls that the regular expression finds. Raises `UpstreamError`."""
        system = _PROMPT.replace("{tools}", "\n".join(map(_definition, tools)))
        earlier = [message["content"] for message in messages if message["role"] == "system"]
        turns = [message for message in messages if message["role"] != "system"]
        body = {
            **sampling,
            "stream": True,
            "messages": [{"role": "system", "content": "\n\n".join([*earlier, system])}, *turns],
        }
        try:
            text = await self._text(body)
        except httpx.HTTPError as error:
            raise UpstreamError(str(error)) from error
        return Reply(text=_CALL.sub("", text), tool_calls=tuple(_calls(text)), usage=Usage())

    async def _text(self, body: dict[str, JSON]) -> str:
        text = ""
        async with self._http.stream("POST", f"{self._url}/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        text += choice["delta"].get("content") or ""
        return text


def _definition(tool: Tool) -> str:
    return json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters})


def _calls(text: str) -> list[ToolCallEnd]:
    calls: list[ToolCallEnd] = []
    for match in _CALL.finditer(text):
        try:
            call = json.loads(match[1])
        except ValueError:
            call = json_repair.loads(match[1])
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            arguments = call.get("arguments")
            written = json.dumps(arguments if isinstance(arguments, dict) else {})
            calls.append(ToolCallEnd(f"c{len(calls)}", call["name"], written, len(calls)))
    return calls
