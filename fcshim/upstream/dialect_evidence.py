"""Evidence of the dialect in which a model writes calls: what its chat template writes, and a trial.

llama-server renders a template for us; Ollama's Go template is read. A template may name a marker that the weights
never write: `<tool_call>` is one token of Qwen2.5-Coder's vocabulary, and did not occur in 230 replies of the small
models. So a template alone is no evidence: the trial shows the model that dialect's prompt, and looks at its reply.

Rule: the template's text is data from outside; nothing of it is executed here.
"""

import asyncio
import json
import logging
import re
from collections.abc import Iterator

import msgspec

from fcshim.errors import FcshimError
from fcshim.parse.dialect import Dialect
from fcshim.parse.recognition import (
    SAMPLE_ARGUMENTS,
    SAMPLE_NAME,
    SAMPLE_TOOLS,
    call_in_prompt,
    recognise_dialects,
    sample_messages,
    start_marker,
)
from fcshim.prompt.render import render_reminder
from fcshim.upstream.endpoint import Upstream
from fcshim.upstream.measured import ProbeResult
from fcshim.upstream.model_identity import ModelIdentity
from fcshim.upstream.model_pages import fetch_object
from fcshim.upstream.question import ask

logger = logging.getLogger("fcshim.upstream")

_ARGUMENTS = json.dumps(SAMPLE_ARGUMENTS)


async def dialects_of_template(upstream: Upstream, identity: ModelIdentity, model: str) -> list[Dialect]:
    """Return the dialects that read the call which the chat template of a model writes; `model` is its listed name."""
    if identity.server == "ollama":
        call = _written_by_go_template(identity.template)
    elif identity.server == "llama-server":
        body = msgspec.json.encode({"model": model, "messages": sample_messages(_ARGUMENTS), "tools": SAMPLE_TOOLS})
        prompt = (await fetch_object(upstream, "POST", "//apply-template", body)).get("prompt")
        call = call_in_prompt(prompt) if isinstance(prompt, str) else ""
    else:
        return []
    return recognise_dialects(call, SAMPLE_NAME, SAMPLE_ARGUMENTS)


_BLOCKS = ("if", "range", "with", "block", "define")
_CALLS = re.compile(r"\.ToolCalls\b")
_NAME = re.compile(r"\.Name\b")
_VALUES = re.compile(r"\.Arguments\b")

_Token = tuple[str, str]
"""`text` or an action's keyword (`value` for an expression), and the text or the action."""


def _written_by_go_template(template: str) -> str:
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


_FUNCTION = "You have one function: lookup_time(city: string), which returns the time in a city."
_QUESTION = "Call lookup_time for Lima."
_MAX_TOKENS = 16
"""Enough for every start marker of the table, spelled in single characters or whole."""
_TIME_LIMIT = 30.0
"""Seconds; a server that needs longer is loading the model, or busy."""
_CALL_STARTS = ("{", "[", "<", "`")
"""How calls in other forms begin: bare and fenced JSON, other tags, lists of Python calls."""


async def probe_dialect(upstream: Upstream, model: str, dialect: Dialect) -> ProbeResult | None:
    """Ask the model for one call in `dialect`, and look at the first tokens of its reply.

    `unclear` if it answers in words. None if the upstream refuses the request or does not answer in time.
    """
    try:
        async with asyncio.timeout(_TIME_LIMIT):
            text = await _first_text(upstream, model, dialect)
    except (FcshimError, TimeoutError) as error:
        logger.info("%s: the dialect %s could not be tried: %s", model, dialect.name, str(error) or "no answer in time")
        return None
    return _judge(text, dialect)


def _judge(text: str, dialect: Dialect) -> ProbeResult:
    """Judge the beginning of a reply."""
    text, marker = text.lstrip(), start_marker(dialect).strip()
    if text.lower().startswith(marker.lower()):
        return "written"
    # The beginning of the marker alone may be a marker that was cut off.
    return "other" if text.startswith(_CALL_STARTS) and not marker.startswith(text) else "unclear"


async def _first_text(upstream: Upstream, model: str, dialect: Dialect) -> str:
    """Return the beginning of the reply, as soon as it is long enough. Raises `FcshimError`."""
    # A tenth of the dialect's whole prompt, which a CPU would read for seconds.
    instructions = f"{_FUNCTION}\n{render_reminder(dialect)}"
    wanted = len(start_marker(dialect)) + 1
    return await ask(
        upstream,
        model,
        instructions,
        _QUESTION,
        max_tokens=_MAX_TOKENS,
        is_enough=lambda text: len(text.lstrip()) >= wanted,
    )
