"""What people write by hand: a prompt, a regular expression, `json.loads`, and then `json_repair`."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import json_repair

from fcshim.events import JSON, ToolCallEnd, Usage
from fcshim.messages import Tool
from fcshim.reply import Reply

_PROMPT = Path(__file__).with_name("naive_prompt.txt").read_text(encoding="utf-8")
_CALL = re.compile(r"<tool_call>(.*?)(</tool_call>|$)", re.DOTALL)


async def complete(
    client: httpx.AsyncClient,
    url: str,
    messages: Sequence[Mapping[str, JSON]],
    tools: Sequence[Tool],
    sampling: Mapping[str, JSON],
) -> Reply:
    """Request a reply with the hand-written prompt, and return it with the calls that the regular expression finds."""
    system = _PROMPT.replace("{tools}", "\n".join(map(_definition, tools)))
    earlier = [message["content"] for message in messages if message["role"] == "system"]
    turns = [message for message in messages if message["role"] != "system"]
    body = {
        **sampling,
        "stream": True,
        "messages": [{"role": "system", "content": "\n\n".join([*earlier, system])}, *turns],
    }
    text = ""
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    text += choice["delta"].get("content") or ""
    return Reply(text=_CALL.sub("", text), tool_calls=tuple(_calls(text)), usage=Usage())


def _definition(tool: Tool) -> str:
    return json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters})


def _calls(text: str) -> list[ToolCallEnd]:
    calls = []
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
