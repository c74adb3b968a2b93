"""Finds out what a model's chat template writes for a call: llama-server renders it, Ollama's Go template is read.

Rule: the template's text is data from outside; nothing of it is executed here.
"""

import json
import re
from collections.abc import Iterator

import msgspec

from fcshim.parse.recognition import SAMPLE_ARGUMENTS, SAMPLE_NAME, SAMPLE_TOOLS, call_in_prompt, sample_messages
from fcshim.upstream.endpoint import Upstream
from fcshim.upstream.pages import fetch_object

_ARGUMENTS = json.dumps(SAMPLE_ARGUMENTS)


async def rendered_call(upstream: Upstream, model: str) -> str:
    """Return what llama-server writes for a past call (`/apply-template`); empty if it says nothing."""
    body = msgspec.json.encode({"model": model, "messages": sample_messages(_ARGUMENTS), "tools": SAMPLE_TOOLS})
    prompt = (await fetch_object(upstream, "POST", "//apply-template", body)).get("prompt")
    return call_in_prompt(prompt) if isinstance(prompt, str) else ""


_BLOCKS = ("if", "range", "with", "block", "define")
_CALLS = re.compile(r"\.ToolCalls\b")
_NAME = re.compile(r"\.Name\b")
_VALUES = re.compile(r"\.Arguments\b")

_Token = tuple[str, str]
"""`text` or an action's keyword (`value` for an expression), and the text or the action."""


def written_by_go_template(template: str) -> str:
    """Return what an Ollama template writes for the sample's call; empty if it writes none.

    Of the branches that depend on the calls of a message, the first one that also goes through them counts.
    """
    tokens = list(_tokens(template))
    for at, (keyword, action) in enumerate(tokens):
        if keyword in ("if", "else", "range") and _CALLS.search(action):
            written = _write_branch(tokens, at)
            if SAMPLE_NAME in written:
                return written
    return ""


def _write_branch(tokens: list[_Token], at: int) -> str:
    """Write the branch that begins after the action `tokens[at]`, with the sample's values; other values are empty."""
    written: list[str] = []
    depth = skipped = 0
    for keyword, content in tokens[at + 1 :]:
        if keyword in _BLOCKS:
            depth += 1
        elif keyword == "end" or (keyword == "else" and depth == 0):
            if depth == 0:
                break
            skipped = 0 if skipped == depth else skipped
            depth -= 1
        elif keyword == "else":
            skipped = skipped or depth  # only the first branch of an inner condition is written
        elif not skipped:
            written.append(content if keyword == "text" else _value(content))
    return "".join(written)


def _value(action: str) -> str:
    if _VALUES.search(action):
        return _ARGUMENTS
    return SAMPLE_NAME if _NAME.search(action) else ""


def _tokens(template: str) -> Iterator[_Token]:
    """Split a Go template into texts and actions; `{{-` and `-}}` trim the text beside them."""
    end, trim = 0, False
    # A search for both ends, not a pattern: many openings without an end would be searched to the end each time.
    while (start := template.find("{{", end)) >= 0 and (stop := template.find("}}", start)) >= 0:
        action = template[start + 2 : stop]
        yield "text", _trimmed(template[end:start], before=trim, after=action.startswith("-"))
        end, trim = stop + 2, action.endswith("-")
        action = action.removeprefix("-").removesuffix("-").strip()
        keyword = action.partition(" ")[0]
        yield (keyword if keyword in (*_BLOCKS, "else", "end") else "value"), action
    yield "text", _trimmed(template[end:], before=trim, after=False)


def _trimmed(text: str, *, before: bool, after: bool) -> str:
    text = text.lstrip() if before else text
    return text.rstrip() if after else text
