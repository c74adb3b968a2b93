"""Replies as models write them, and malformed ones, generated from a seed; most have known expected events.

Rule: the seed determines everything, so that a seed is a complete bug report.
"""

import json
import random
from dataclasses import dataclass, field
from typing import Any

from fcshim.events import StopReason
from tests.parse.laws import Piece

OPEN, CLOSE = "<function_call>", "</function_call>"
NAMES = ("f", "get_weather", "read file", "größe", "a.b-c", 'say "hi"')
UNKNOWN = ("nope", "erase_disk", "ff")
WORDS = (
    "the", "weather", "in", "Paris", "is", "fine", "42", "a<b", "x>y", "naïve", "東京", "🙂", "don't", '"quoted"', "{",
    "}", "[1]", "<b>bold</b>", "<", "</", "<function", "<function_cal", "< function_call>", "f(x)", "a:b",
    "C:\\dir", "—", "\t", "<thi", "think", "&lt;", "#", "\\", "'", "<function_call", "<br/>", "null",
    "\u2028", "e\u0301",
)  # fmt: skip
CLOSERS = frozenset({"}", "</", "<", "\t", "\u2028"})
"""Words that may belong to a stray closing marker."""
NASTY = (
    CLOSE, OPEN, "{", "}", "]", '"', '\\"', "\\", "\n", "\t", "```", "`", "<think>", "</think>", "</", "<",
    "</function_cal", "<function_result name=", "</function_result>", "User: ", "\nAssistant: ", "🙂",
    "\ud83d\ude42", "é", "\u2028", "\x00", "//", "/*", "#", "'", ",", ":", '", "', "True", "None", "http://x.org/",
    "~~~", "> ", '{"name": "f", "arguments": {}}', "lorem ipsum ", "<|im_start|>", "\x1f", "\u007f", "word", " ",
)  # fmt: skip
JUNK = (
    *NASTY, OPEN + "\n", "\n" + CLOSE, '{"name": "f", "arguments": {', "}}", '"name": ', '"arguments": ',
    "<function_result>", "\n```\n", "```json\n", "``", "NaN", "Infinity", "-", "1e", "0", "True", "False",
    "undefined", "\\u", "\\ud83d", "\\x41", "[", "*/", "name", "arguments", "\n\n", "<think>\n", "User:", "\n> ",
    "<|im_end|>\n", "functions.", "\r\n", ";", "…",
    "[code]", "\\begin{verbatim}", "<!--", "<![CDATA[", "<example>", "#+begin_src", "<|im_start|>",
)  # fmt: skip


@dataclass(slots=True)
class Document:
    """A reply, the parser's options for it, and its expected events if they are known."""

    seed: int
    text: str = ""
    events: list[Piece] | None = field(default_factory=list)
    tools: list[Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    stop_reason: StopReason = "complete"
    finished: bool = False
    loose: bool = False
    """True if white space around text is not compared, because templates and sections add some."""

    @property
    def offered(self) -> list[str] | None:
        """The names of the offered tools; None admits every name."""
        return None if self.tools is None else [tool["function"]["name"] for tool in self.tools]


def make(seed: int, source: random.Random) -> Document:
    """Create a document: half are exact, three in ten are mutated, two in ten are random fragments."""
    kind = source.random()
    if kind < 0.8:
        document = _Writer(seed, source).write()
        if kind >= 0.5:
            _mutate(document, source)
    else:
        document = _soup(seed, source)
    return document


def arguments(source: random.Random) -> dict[str, Any]:
    """Create the arguments of a call."""
    return {_string(source): _value(source, 0) for _ in range(source.choice((0, 1, 1, 2, 3)))}


def spell(value: Any, source: random.Random) -> str:
    """Write a value as strict JSON, in one of the layouts that models use."""
    layout = source.random()
    ascii_only = source.random() < 0.3
    if layout < 0.5:
        return json.dumps(value, ensure_ascii=ascii_only)
    if layout < 0.75:
        return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=ascii_only, indent=source.choice((1, 2, 4, "\t")))


def body(name: str, spelled: str, source: random.Random) -> str:
    """Write the body of a call around its arguments, in any order of the keys, with or without further keys."""
    members = [
        f'"name": {json.dumps(name, ensure_ascii=source.random() < 0.5)}',
        f'"arguments":{_space(source)}{spelled}',
    ]
    if source.random() < 0.3:
        members.reverse()
    if source.random() < 0.2:
        members.insert(
            source.randint(0, 2), f'"{source.choice(("id", "reason", "x"))}": {spell(_value(source, 1), source)}'
        )
    comma = source.choice((", ", ",", " ,\n "))
    return f"{{{_space(source)}{comma.join(members)}{_space(source)}}}"


class _Writer:
    """Writes a document with known expected events, segment by segment."""

    def __init__(self, seed: int, source: random.Random) -> None:
        self._source = source
        offered = source.sample(NAMES, source.randint(1, len(NAMES)))
        tools = [{"type": "function", "function": {"name": name, "parameters": _schema(source)}} for name in offered]
        self._offered = offered
        self._document = Document(seed, tools=tools)
        if source.random() < 0.3:
            self._document.options["reasoning"] = source.choice(("ignore", "recover"))
        if source.random() < 0.2:
            self._document.options["arguments"] = source.choice(("validated", "resumable"))

    def write(self) -> Document:
        source = self._source
        if source.random() < 0.2:
            self._reasoning()
        segments = (
            self._say,
            self._say,
            self._call,
            self._call,
            self._unknown,
            self._fence,
            self._span,
            self._quotation,
        )
        for _ in range(source.randint(0, 6)):
            source.choice(segments)()
        source.choice((self._say, self._call, self._invent, self._cut, self._end, self._end))()
        calls = [piece for piece in self._events if "call" in piece and piece["error"] is None]
        reason = self._document.stop_reason
        well = reason in ("complete", "stop_sequence")
        self._events.append({"stop": "tool_use" if calls and well else reason})
        return self._document

    @property
    def _events(self) -> list[Piece]:
        assert self._document.events is not None
        return self._document.events

    def _add_text(self, text: str) -> None:
        if text.lstrip().startswith("{") and self._events and "call" in self._events[-1]:
            text = "so " + text  # an object directly after a call is an invented result
        self._document.text += text
        if self._events and "text" in self._events[-1]:
            self._events[-1]["text"] += text
        elif text:
            self._events.append({"text": text})

    def _reasoning(self) -> None:
        thought = noise(self._source) + self._source.choice(("", self._quotable(), "\n")) + "."
        self._document.text += f"<think>{thought}</think>"
        self._events.append({"reasoning": thought})

    def _say(self) -> None:
        self._add_text(noise(self._source) + self._source.choice(("", "\n", "\n\n")))

    def _written_call(self, names: tuple[str, ...] | None = None) -> tuple[str, Piece]:
        source = self._source
        name = source.choice(names or tuple(self._offered))
        spelled = spell(arguments(source), source)
        written = f"{OPEN}{_space(source)}{body(name, spelled, source)}{_space(source)}{CLOSE}"
        return written, {"call": name, "arguments": spelled, "coerced": [], "error": None}

    def _call(self) -> None:
        written, piece = self._written_call()
        self._document.text += written
        self._events.append(piece)

    def _unknown(self) -> None:
        self._add_text(self._written_call(UNKNOWN)[0])

    def _fence(self) -> None:
        fence = self._source.choice(("```", "~~~", "`````"))
        quoted = self._quotable() if self._source.random() < 0.7 else "print(1)"
        language = self._source.choice(("", "json", "xml"))
        self._add_text(f"\n{fence}{language}\n{quoted}\n{fence}\nso it goes. ")

    def _span(self) -> None:
        ticks = self._source.choice(("`", "``", "`"))
        self._add_text(f" {ticks}{self._quotable()}{ticks} ")

    def _quotation(self) -> None:
        self._add_text(f"\n> {self._quotable()}\n\nas said. ")

    def _quotable(self) -> str:
        """Write a call on one line and without Markdown quotes, so that the quotation around it stays intact."""
        source = self._source
        spelled = json.dumps({"a": source.choice(WORDS), "b": [source.randint(0, 9)]})
        return f'{OPEN}{{"name": {json.dumps(source.choice(self._offered))}, "arguments": {spelled}}}{CLOSE}'

    def _invent(self) -> None:
        self._call()
        self._document.text += f'<function_result name="f">{noise(self._source)}</function_result>{noise(self._source)}'
        self._document.finished = True

    def _cut(self) -> None:
        """End inside a call's arguments, at the token limit: the call is truncated, whatever was sent."""
        source = self._source
        name = source.choice(self._offered)
        start = f'{OPEN}{{"name": {json.dumps(name)}, "arguments": '
        spelled = spell({"k": "v", **arguments(source)}, source)
        self._document.text += start + spelled[: source.randint(1, len(spelled))]
        self._events.append({"call": name, "error": "truncated"})
        self._document.stop_reason = "max_tokens"

    def _end(self) -> None:
        self._document.stop_reason = self._source.choice(("complete", "max_tokens", "stop_sequence", "content_filter"))


def noise(source: random.Random) -> str:
    """Create prose without Markdown quotes: many partial markers, but never a call."""
    words = source.choices(WORDS, k=source.randint(1, 8))
    if not {*words} - CLOSERS:
        words.append("so")  # closers alone are dropped after a call
    return " ".join(words) + " "


def _soup(seed: int, source: random.Random) -> Document:
    document = Document(seed, events=None)
    document.text = "".join(
        source.choice(JUNK if source.random() < 0.7 else WORDS) for _ in range(source.randint(1, 40))
    )
    random_options(document, source)
    if source.random() < 0.5:
        document.tools = [{"type": "function", "function": {"name": "f"}}]
    return document


def _mutate(document: Document, source: random.Random) -> None:
    document.events = None
    random_options(document, source)
    for _ in range(source.randint(1, 4)):
        start = source.randint(0, len(document.text))
        end = start + min(source.randint(1, 12), len(document.text) - start)
        before, part, after = document.text[:start], document.text[start:end], document.text[end:]
        document.text = source.choice(MUTATIONS)(before, part, after, source)


MUTATIONS = (
    lambda before, part, after, source: before + after,
    lambda before, part, after, source: before + part,
    lambda before, part, after, source: before + part + part + after,
    lambda before, part, after, source: before + source.choice(JUNK) + part + after,
    lambda before, part, after, source: before + source.choice(JUNK) + after,
    lambda before, part, after, source: (before + part).replace('"', "'") + after,
    lambda before, part, after, source: before + (part + after).replace('\\"', '"'),
    lambda before, part, after, source: (before + part + after).replace("true", "True").replace("null", "None"),
    lambda before, part, after, source: before + part + after.replace(CLOSE, "", 1),
    lambda before, part, after, source: before + part.swapcase() + after,
    lambda before, part, after, source: f"```\n{before + part + after}\n```",
    lambda before, part, after, source: f"<think>{before + part + after}",
)


def random_options(document: Document, source: random.Random) -> None:
    document.finished = False
    document.options = {"reasoning": source.choice(("ignore", "ignore", "recover", "promote"))}
    if source.random() < 0.3:
        document.options["arguments"] = source.choice(("validated", "resumable"))
    document.stop_reason = source.choice(("complete", "complete", "max_tokens", "stop_sequence", "error"))


def _schema(source: random.Random) -> Any:
    return source.choice((None, {}, {"type": "object"}, {"type": "object", "properties": {}}))


def _space(source: random.Random) -> str:
    return source.choice(("", "", "\n", " ", "\n  ", "\r\n", "\t"))


def _string(source: random.Random) -> str:
    return "".join(source.choices(NASTY, k=source.choice((0, 1, 1, 2, 3, 6)))).replace("\ud83d\ude42", "🙂")


def _value(source: random.Random, depth: int) -> Any:
    kind = source.random()
    if kind < 0.5 or depth > 4:
        return _string(source)
    if kind < 0.75:
        return source.choice((0, -1, 3.5, 1e-7, 12345678901234567890, True, False, None, -0.0, 1e22))
    if kind < 0.88:
        return [_value(source, depth + 1) for _ in range(source.randint(0, 3))]
    return {_string(source): _value(source, depth + 1) for _ in range(source.randint(0, 3))}
