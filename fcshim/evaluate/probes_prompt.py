"""Probes of what a prompt may hold: roles and their order, images, an answer begun for the model, how many tokens.

Rule: whether a text is in the prompt is told by the tokens that are counted; what the model makes of it comes second.
Neighbours: `probes` has the table, `patient` asks; `profiles` is what the answers are for.
"""

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from fcshim.codecs.openai_chat.models import MODELS_PATH
from fcshim.detection import lookup
from fcshim.evaluate.finding import Seen
from fcshim.evaluate.patient import HELLO, Patient, assistant, excerpt, system, user
from fcshim.events import JSON
from fcshim.messages import MediaPart, TextPart, UserMessage

_WORD = "marigold"
_INSTRUCTION = (
    f"You are the voice of a garden gate. Whatever the user says, you answer with the one word {_WORD}, "
    "in lower case, and with nothing else: no greeting, no explanation, no punctuation."
)
_LEAST = 20
"""Tokens that the instruction has at least, in any vocabulary."""
_TOKENS = 24
_SMALL = 4096
"""Tokens of context in which the schemas of a dozen tools leave little room."""
_BEGUN, _NEXT = "One, two, three,", "four"
_CLOSED = 3
"""Tokens that end one turn and begin the next; templates take three or more."""


async def takes_system(patient: Patient) -> Seen:
    """Ask with a system message; refused, dropped without a word, or there."""
    answer = await patient.ask(patient.request(system(_INSTRUCTION), user(HELLO), max_tokens=_TOKENS))
    if not answer.good:
        first = "instructions and tools open the first user turn instead (profile no-system)"
        return Seen("no" if answer.refused else "unclear", answer.told(), first if answer.refused else "")
    more = patient.growth(answer)
    if more is not None and more < _LEAST:
        means = "instructions and tools open the first user turn instead (profile no-system)"
        return Seen("no", f"dropped without a word: the prompt grew by {more} tokens, of {_LEAST} or more", means)
    obeyed = _WORD in answer.text.lower()
    heeded = "and the model does what it says" if obeyed else f"but the model answers {excerpt(answer.text)!r}"
    if more is None:
        return Seen("yes" if obeyed else "unclear", f"nobody counts tokens, {heeded}")
    return Seen("yes", f"the prompt grew by {more} tokens, {heeded}")


async def takes_any_order(patient: Patient) -> Seen:
    """Ask with two user turns in a row, and with the model's turn first."""
    twice = await patient.ask(patient.request(user("Listen."), user(HELLO), max_tokens=1))
    first = await patient.ask(patient.request(assistant("Welcome."), user(HELLO), max_tokens=1))
    asked = [("two user turns in a row", twice), ("the model's turn first", first)]
    refused = [f"{words}: {answer.told()}" for words, answer in asked if not answer.good]
    if refused:
        return Seen("no", "; ".join(refused), "turns that follow one another are joined (any profile but free)")
    return Seen("yes", "two user turns in a row, and the model's first, are accepted", "profile free would do as well")


async def takes_developer(patient: Patient) -> Seen:
    """Ask with a `developer` message, as newer clients of OpenAI's API do."""

    def renamed(body: JSON) -> JSON:
        body["messages"][0]["role"] = "developer"
        return body

    request = patient.request(system(_INSTRUCTION), user(HELLO), max_tokens=1)
    answer = await patient.ask(request, change=renamed)
    means = "fcshim writes system messages instead"
    if not answer.good:
        return Seen("no", answer.told(), means)
    more = patient.growth(answer)
    if more is not None and more < _LEAST:
        return Seen("no", f"dropped without a word: the prompt grew by {more} tokens", means)
    return Seen(
        "yes" if more is not None else "unclear", "accepted" + ("" if more is None else f", {more} tokens more")
    )


async def takes_images(patient: Patient) -> Seen:
    """Ask with a small picture."""
    picture = MediaPart("image/png", data=b64encode(_picture()).decode())
    asked = patient.request(UserMessage((TextPart(HELLO), picture)), max_tokens=1)
    answer = await patient.ask(asked)
    if not answer.good:
        told = "a line says that there was one (profile text-only)" if answer.refused else ""
        return Seen("no" if answer.refused else "unclear", answer.told(), told)
    more = patient.growth(answer)
    if more is not None and more < _CLOSED:
        return Seen("no", "accepted, and not in the prompt", "a line says that there was one (profile text-only)")
    return Seen("yes", "accepted" + ("" if more is None else f", {more} tokens more"))


async def continues(patient: Patient) -> Seen:
    """Ask with a beginning of the model's answer, and see whether it goes on from there or takes a new turn."""
    answer = await patient.ask(patient.request(user(HELLO), assistant(_BEGUN), max_tokens=8))
    if not answer.good:
        return Seen("no" if answer.refused else "unclear", answer.told())
    messages = [{"role": "user", "content": HELLO}, {"role": "assistant", "content": _BEGUN}]
    prompt = await patient.shown_prompt(messages)
    if prompt:
        end = excerpt(prompt[-60:])
        return Seen("yes" if prompt.rstrip().endswith(_BEGUN) else "no", f"the prompt ends with {end!r}")
    said = await patient.ask(patient.request(user(f"{HELLO}\n{_BEGUN}"), max_tokens=1))
    if not (answer.prompt_tokens and said.prompt_tokens):
        went_on = answer.text.lstrip().lower().startswith(_NEXT)
        return Seen("yes" if went_on else "unclear", f"behind {_BEGUN!r} it says {excerpt(answer.text)!r}")
    around = answer.prompt_tokens - said.prompt_tokens
    evidence = f"{max(around, 0)} tokens close a turn of the model's, which then says {excerpt(answer.text)!r}"
    if around >= _CLOSED:
        return Seen("no", evidence)
    return Seen("yes" if around <= 0 or answer.text.lstrip().lower().startswith(_NEXT) else "unclear", evidence)


async def has_room(patient: Patient) -> Seen:
    """Look on the pages where servers say how long a conversation may be; nothing is tried out."""
    for room in _ROOMS:
        if not patient.server.name.startswith(room.server):
            continue
        tokens = room.read(await _document(patient, room.path), patient.model)
        if tokens and room.at_most:
            return Seen("unclear", f"at most {tokens} tokens ({room.path.lstrip('/')}), maybe fewer")
        if tokens:
            means = "little: --tools-style signature lists tools in fewer tokens" if tokens < _SMALL else ""
            return Seen("yes", f"{tokens} tokens ({room.path.lstrip('/')})", means, tokens)
    return Seen("unclear", "no page tells")


async def _document(patient: Patient, path: str) -> JSON:
    if path == MODELS_PATH:
        return patient.listed
    if path == _SHOW:
        return await patient.page("POST", path, {"model": patient.model})
    return await patient.page("GET", path)


_Room = Callable[[JSON, str], int]


def _at(way: str) -> _Room:
    return lambda document, _model: _count(lookup(document, way))


def _of_model(*members: str) -> _Room:
    """Look in the row of a list that is about the model, or its only one."""

    def look(document: JSON, model: str) -> int:
        rows = lookup(document, "data") or lookup(document, "models")
        rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        own = [row for row in rows if model in (row.get("id"), row.get("name"), row.get("model"))]
        row = own[0] if own else rows[0] if len(rows) == 1 else None
        return next(filter(None, (_count(lookup(row, member)) for member in members)), 0)

    return look


def _of_ollama(document: JSON, _model: str) -> int:
    """Read what a model file sets; what a model could do at most is more than it gets."""
    parameters = lookup(document, "parameters")
    found = re.search(r"^num_ctx\s+(\d{1,9})\b", parameters, re.MULTILINE) if isinstance(parameters, str) else None
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class _Page:
    """Where a kind of server (any, where none is named) tells; `at_most`: what is possible, not what is in force."""

    server: str
    path: str
    read: _Room
    at_most: bool = False


_SHOW = "//api/show"
_ROOMS = (
    _Page("llama-server", "//props", _at("default_generation_settings.n_ctx")),
    _Page("ollama", "//api/ps", _of_model("context_length")),
    _Page("ollama", _SHOW, _of_ollama),
    _Page("lmstudio", "//api/v0/models", _of_model("loaded_context_length")),
    _Page("", MODELS_PATH, _of_model("meta.n_ctx", "max_model_len", "context_length", "context_window")),
    _Page("lmstudio", "//api/v0/models", _of_model("max_context_length"), at_most=True),
    _Page("", MODELS_PATH, _of_model("meta.n_ctx_train"), at_most=True),
)


def _count(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _picture() -> bytes:
    """Make a grey picture of 64 x 64: models that see refuse smaller ones."""
    size = 64
    rows = (b"\0" + b"\x80" * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
