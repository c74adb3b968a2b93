"""Probes of the prompt: roles and their order, images, a prefilled reply, the context length.

Rule: the token count decides whether a text is in the prompt; the model's reaction to it is only the second evidence.
"""

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.evaluate.result import ProbeResult
from fcshim.evaluate.target import HELLO, ProbeTarget, assistant_message, excerpt, system_message, user_message
from fcshim.events import JSON
from fcshim.messages import MediaPart, TextPart, UserMessage
from fcshim.upstream.detection import lookup

_WORD = "marigold"
_INSTRUCTION = (
    f"You are the voice of a garden gate. Whatever the user says, you answer with the one word {_WORD}, "
    "in lower case, and with nothing else: no greeting, no explanation, no punctuation."
)
_MIN_INSTRUCTION_TOKENS = 20
"""Fewest tokens of the instruction in any vocabulary."""
_MAX_TOKENS = 24
_SMALL_CONTEXT = 4096
"""Tokens of context in which the schemas of a dozen tools leave little room."""
_PREFILL, _CONTINUATION = "One, two, three,", "four"
_TURN_BOUNDARY_TOKENS = 3
"""Fewest tokens with which a chat template ends one turn and begins the next."""


async def probe_system_role(target: ProbeTarget) -> ProbeResult:
    """Send a system message: it may be rejected, silently dropped, or in the prompt."""
    answer = await target.send(
        target.make_request(system_message(_INSTRUCTION), user_message(HELLO), max_tokens=_MAX_TOKENS)
    )
    means = "instructions and tools open the first user turn instead (profile no-system)"
    if not answer.ok:
        refused = answer.rejected
        return ProbeResult("no" if refused else "unclear", answer.error_summary(), means if refused else "")
    more = target.extra_prompt_tokens(answer)
    if more is not None and more < _MIN_INSTRUCTION_TOKENS:
        evidence = f"dropped without a word: the prompt grew by {more} tokens, of {_MIN_INSTRUCTION_TOKENS} or more"
        return ProbeResult("no", evidence, means)
    obeyed = _WORD in answer.text.lower()
    reaction = "and the model obeys it" if obeyed else f"but the model answers {excerpt(answer.text)!r}"
    if more is None:
        return ProbeResult("yes" if obeyed else "unclear", f"tokens are not counted, {reaction}")
    return ProbeResult("yes", f"the prompt grew by {more} tokens, {reaction}")


async def probe_turn_order(target: ProbeTarget) -> ProbeResult:
    """Send two user turns in a row, and a conversation that starts with an assistant turn."""
    twice = await target.send(target.make_request(user_message("Listen."), user_message(HELLO), max_tokens=1))
    first = await target.send(target.make_request(assistant_message("Welcome."), user_message(HELLO), max_tokens=1))
    orders = [("two user turns in a row", twice), ("the model's turn first", first)]
    rejected = [f"{order}: {answer.error_summary()}" for order, answer in orders if not answer.ok]
    if rejected:
        return ProbeResult("no", "; ".join(rejected), "consecutive turns are joined (every profile except free)")
    return ProbeResult(
        "yes", "two user turns in a row, and the model's first, are accepted", "profile free would also work"
    )


async def probe_developer_role(target: ProbeTarget) -> ProbeResult:
    """Send a `developer` message, as newer clients of OpenAI's API do."""

    def renamed(body: JSON) -> JSON:
        body["messages"][0]["role"] = "developer"
        return body

    request = target.make_request(system_message(_INSTRUCTION), user_message(HELLO), max_tokens=1)
    answer = await target.send(request, edit_body=renamed)
    means = "fcshim writes system messages instead"
    if not answer.ok:
        return ProbeResult("no", answer.error_summary(), means)
    more = target.extra_prompt_tokens(answer)
    if more is not None and more < _MIN_INSTRUCTION_TOKENS:
        return ProbeResult("no", f"dropped without a word: the prompt grew by {more} tokens", means)
    return ProbeResult(
        "yes" if more is not None else "unclear", "accepted" + ("" if more is None else f", {more} tokens more")
    )


async def probe_images(target: ProbeTarget) -> ProbeResult:
    """Send a small image."""
    picture = MediaPart("image/png", data=b64encode(_gray_png()).decode())
    request = target.make_request(UserMessage((TextPart(HELLO), picture)), max_tokens=1)
    answer = await target.send(request)
    if not answer.ok:
        means = "a line of text replaces each image (profile text-only)" if answer.rejected else ""
        return ProbeResult("no" if answer.rejected else "unclear", answer.error_summary(), means)
    more = target.extra_prompt_tokens(answer)
    if more is not None and more < _TURN_BOUNDARY_TOKENS:
        return ProbeResult(
            "no", "accepted, and not in the prompt", "a line of text replaces each image (profile text-only)"
        )
    return ProbeResult("yes", "accepted" + ("" if more is None else f", {more} tokens more"))


async def probe_prefill(target: ProbeTarget) -> ProbeResult:
    """Send the start of the model's reply as the last message: the model may continue it, or begin a new turn."""
    answer = await target.send(target.make_request(user_message(HELLO), assistant_message(_PREFILL), max_tokens=8))
    if not answer.ok:
        return ProbeResult("no" if answer.rejected else "unclear", answer.error_summary())
    messages = [{"role": "user", "content": HELLO}, {"role": "assistant", "content": _PREFILL}]
    prompt = await target.rendered_prompt(messages)
    if prompt:
        end = excerpt(prompt[-60:])
        return ProbeResult("yes" if prompt.rstrip().endswith(_PREFILL) else "no", f"the prompt ends with {end!r}")
    as_user = await target.send(target.make_request(user_message(f"{HELLO}\n{_PREFILL}"), max_tokens=1))
    if not (answer.prompt_tokens and as_user.prompt_tokens):
        continued = answer.text.lstrip().lower().startswith(_CONTINUATION)
        return ProbeResult("yes" if continued else "unclear", f"after {_PREFILL!r} it writes {excerpt(answer.text)!r}")
    # The same text in a user turn has no turn boundary of its own, so the difference is the boundary after the prefill.
    around = answer.prompt_tokens - as_user.prompt_tokens
    evidence = f"{max(around, 0)} tokens end the prefilled turn, after which the model writes {excerpt(answer.text)!r}"
    if around >= _TURN_BOUNDARY_TOKENS:
        return ProbeResult("no", evidence)
    return ProbeResult(
        "yes" if around <= 0 or answer.text.lstrip().lower().startswith(_CONTINUATION) else "unclear", evidence
    )


async def probe_context_length(target: ProbeTarget) -> ProbeResult:
    """Read the context length from the pages on which servers report it. No long prompt is sent."""
    for source in _CONTEXT_LENGTH_SOURCES:
        if not target.backend.name.startswith(source.backend):
            continue
        tokens = source.read(await _fetch_document(target, source.path), target.model)
        target.context_length = tokens or target.context_length
        if tokens and source.at_most:
            return ProbeResult("unclear", f"at most {tokens} tokens ({source.path.lstrip('/')}), maybe fewer")
        if tokens:
            means = "little: --tools-style signature lists tools in fewer tokens" if tokens < _SMALL_CONTEXT else ""
            return ProbeResult("yes", f"{tokens} tokens ({source.path.lstrip('/')})", means, tokens)
    return ProbeResult("unclear", "no page reports it")


async def _fetch_document(target: ProbeTarget, path: str) -> JSON:
    if path == OPENAI_CHAT.models_path:
        return target.model_list
    if path == _SHOW_PATH:
        return await target.fetch_json("POST", path, {"model": target.model})
    return await target.fetch_json("GET", path)


_ReadLength = Callable[[JSON, str], int]


def _from_model_row(*members: str) -> _ReadLength:
    """Return a reader of the model's row in a list, or of the only row."""

    def look(document: JSON, model: str) -> int:
        rows = lookup(document, "data") or lookup(document, "models")
        rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        own = [row for row in rows if model in (row.get("id"), row.get("name"), row.get("model"))]
        row = own[0] if own else rows[0] if len(rows) == 1 else None
        return next(filter(None, (_positive_int(lookup(row, member)) for member in members)), 0)

    return look


def _from_ollama_parameters(document: JSON, _model: str) -> int:
    """Read `num_ctx` of the model file. The length that the model supports may be more than the server allocates."""
    parameters = lookup(document, "parameters")
    found = re.search(r"^num_ctx\s+(\d{1,9})\b", parameters, re.MULTILINE) if isinstance(parameters, str) else None
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class _ContextLengthSource:
    """A page with the context length; `backend` "" means any server.

    `at_most`: it is the length that the model supports, which may be more than the server allocates.
    """

    backend: str
    path: str
    read: _ReadLength
    at_most: bool = False


_SHOW_PATH = "//api/show"
_CONTEXT_LENGTH_SOURCES = (
    _ContextLengthSource(
        "llama-server",
        "//props",
        lambda document, _model: _positive_int(lookup(document, "default_generation_settings.n_ctx")),
    ),
    _ContextLengthSource("ollama", "//api/ps", _from_model_row("context_length")),
    _ContextLengthSource("ollama", _SHOW_PATH, _from_ollama_parameters),
    _ContextLengthSource("lmstudio", "//api/v0/models", _from_model_row("loaded_context_length")),
    _ContextLengthSource(
        "", OPENAI_CHAT.models_path, _from_model_row("meta.n_ctx", "max_model_len", "context_length", "context_window")
    ),
    _ContextLengthSource("lmstudio", "//api/v0/models", _from_model_row("max_context_length"), at_most=True),
    _ContextLengthSource("", OPENAI_CHAT.models_path, _from_model_row("meta.n_ctx_train"), at_most=True),
)


def _positive_int(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _gray_png() -> bytes:
    """Return a gray PNG of 64 x 64 pixels; vision models reject smaller images."""
    size = 64
    rows = (b"\0" + b"\x80" * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
