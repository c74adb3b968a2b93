"""Text that is neither an answer nor a call, which the client does not get.

Such are copies of the prompt, invented results, and calls of tools that are not offered. Most of them the parser
reports; a reply that is nothing but a call in JSON, without tags, is found here (`BareCallSearch`).

Rule: between the tags of a result, plain text is the answer if the conversation has a result to answer with. Everything
else gives way to one sentence that names the defect. Other text passes at once, unchanged; only a reply that begins
with `{"name": "...", "arguments": {`, or the same with `parameters`, is held back, until it differs from such a call.
"""

import re
from collections.abc import Iterable, Set

import msgspec

from fcshim.events import JSON, Event, Stop, Text, ToolCallStart
from fcshim.parse.defect import Defect, ReportDefect

SENTENCES = {
    "result": "The model wrote a tool's result itself instead of calling the tool or answering.",
    "copied": "The model repeated its instructions instead of calling a tool or answering.",
    "unoffered": "The model called the tool {name}, which is not offered.",
}
"""What the client gets in place of such text, by the kind of the defect."""
_MAX_SENTENCES = 1_000
"""Characters of the sentences about one text."""
_MAX_ANSWER = 16_384
"""Characters of an answer between result tags: more is not kept."""
_START_TAG = re.compile(r"<[^<>\n]{1,256}>|\[[^\[\]\n]{1,64}\]")
_END_TAG = re.compile(r"(?:<[^<>\n]{1,64}>|\[/[^\[\]\n]{1,64}\])\Z")
_MAX_TAG = 80
_MARKUP = re.compile(r"\A\s*[{\[<]|</?[A-Za-z|｜!]")
"""What begins data, and a tag anywhere."""


class WithheldText:
    """Replaces what the parser reports through `report_copy`; other defects go through unchanged.

    `on_defect` receives the defects, too; without it their places are dropped from the events. `has_results`: tools'
    results came after the model's last turn.
    """

    __slots__ = (
        "_defect",
        "_has_results",
        "_in_text",
        "_on_defect",
        "_parts",
        "_places",
        "_sentence",
        "_size",
        "_tells_always",
        "is_active",
    )

    def __init__(self, on_defect: ReportDefect | None, *, has_results: bool) -> None:
        self.is_active = False
        """Whether the next events must pass `apply`."""
        self._on_defect = on_defect
        self._has_results = has_results
        self._places: list[Defect] = []  # those whose empty `Text` is still to come
        self._defect: Defect | None = None  # that of the text that is being withheld
        self._parts: list[str] = []
        self._size = 0
        self._sentence = ""
        self._tells_always = False  # whether the sentence stands beside later text, too
        self._in_text = False

    def report(self, defect: Defect) -> None:
        """Take a defect from the parser."""
        if defect.kind != "invalid":
            self._places.append(defect)
            self.is_active = True
        if self._on_defect is not None and defect.kind != "end":
            self._on_defect(defect)

    def apply(self, events: Iterable[Event], *, in_text: bool) -> list[Event]:
        """Return the events without the withheld text, and with what takes its place; `in_text`: text came before."""
        self._in_text = in_text
        passed = [event for each in events for event in self._apply(each)]
        self.is_active = bool(self._places or self._defect or self._sentence)
        return passed

    def _apply(self, event: Event) -> list[Event]:
        match event:
            case Text(text=""):
                return self._reach_place(event)
            case Text():
                return self._pass_text(event)
            case ToolCallStart():
                self._defect, self._sentence, self._in_text = None, "", False
                self._parts.clear()
                return [event]
            case Stop():
                answer = self._end()
                sentence = self._take_sentence()
                return [*answer, *([Text(sentence)] if sentence else []), event]
        return [event]

    def _reach_place(self, place: Event) -> list[Event]:
        """Handle the place of a defect: withheld text begins or ends there, or a rejected call follows."""
        defect = self._places.pop(0)
        if defect.kind == "end":
            return self._end()
        if defect.kind in SENTENCES:
            self._defect, self._size = defect, 0
        return [] if self._on_defect is None else [place]

    def _pass_text(self, event: Text) -> list[Event]:
        if self._defect is not None:
            self._size += len(event.text)
            if self._size <= _MAX_ANSWER:
                self._parts.append(event.text)
            return []
        if not self._sentence:
            self._in_text = self._in_text or not event.text.isspace()
            return [event]
        if event.text.isspace():
            return []
        # After a real result the text answers; after an invented one the client must know that it was invented.
        is_told, sentence = self._tells_always or not self._has_results, self._take_sentence()
        text = event.text.lstrip()
        return [Text(f"{sentence}\n\n{text}" if is_told else text)]

    def _end(self) -> list[Event]:
        """End the withheld text; return the answer in it, or keep the sentence."""
        defect, self._defect = self._defect, None
        if defect is None:
            return []
        text = "".join(self._parts)
        self._parts.clear()
        answer = _answer_in(text) if defect.kind == "result" and self._has_results and self._size <= _MAX_ANSWER else ""
        if answer:
            return [Text(answer)]
        sentence = sentence_about(defect)
        self._tells_always = defect.kind == "unoffered"
        if sentence not in self._sentence and len(self._sentence) < _MAX_SENTENCES:
            is_apart = self._sentence or (self._in_text and self._tells_always)
            self._sentence += f"\n{sentence}" if is_apart else sentence
        return []

    def _take_sentence(self) -> str:
        sentence, self._sentence = self._sentence, ""
        return sentence


def sentence_about(defect: Defect) -> str:
    """Return what the client gets in place of a text with this defect."""
    return SENTENCES[defect.kind].format(name=f"{defect.tool_name!r:.80}")


def _answer_in(text: str) -> str:
    """Return the plain text between the tags of a result; empty if there is none."""
    text = text.strip()
    start, end = _START_TAG.match(text), _END_TAG.search(text, max(len(text) - _MAX_TAG, 0))
    if start is None:
        return ""
    content = text[start.end() : end.start() if end is not None and end.start() >= start.end() else None].strip()
    return "" if _MARKUP.search(content) else content


_BEGIN = '{"name":"'
_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}")
_AFTER_NAME = ('","arguments":{', '","parameters":{')
_MAX_BEGIN = 1_024
"""Characters within which the arguments must begin, white space included."""
_MAX_CALL = 16_384
"""Characters of such a call; a longer text is an answer."""


class BareCallSearch:
    """Finds a reply that is nothing but a call in JSON, without other keys, of a tool that is not `offered`.

    It holds the text back while it may be such a call.
    """

    __slots__ = ("_begins", "_offered", "_parts", "_size")

    def __init__(self, offered: Set[str]) -> None:
        self._offered = offered
        self._parts: list[str] = []
        self._size = 0
        self._begins = False

    def feed(self, text: str) -> str:
        """Take text; return all that was held back once it cannot be such a call, else nothing."""
        self._parts.append(text)
        self._size += len(text)
        if self._begins:
            return "" if self._size <= _MAX_CALL else self.flush()
        verdict = _begins_call("".join(self._parts)) if self._size <= _MAX_BEGIN else False
        if verdict is False:
            return self.flush()
        self._begins = verdict is True
        return ""

    def flush(self) -> str:
        """Return what is held back."""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text

    def tool_name(self) -> str:
        """Return the name of the tool that the reply calls, which has ended; empty if it is no such call."""
        try:
            call: JSON = msgspec.json.decode("".join(self._parts)) if self._begins else None
        except (ValueError, RecursionError):
            return ""
        match call:
            case {"name": str(name), **others} if others.keys() <= {"arguments", "parameters"}:
                is_call = all(isinstance(value, dict | None) for value in others.values())
                return name if is_call and _NAME.fullmatch(name) and name not in self._offered else ""
        return ""


def _begins_call(text: str) -> bool | None:
    """Return whether a text begins such a call; None if more is needed to decide."""
    compact = "".join(text.split())
    if not compact.startswith(_BEGIN):
        return None if _BEGIN.startswith(compact) else False
    rest = compact[len(_BEGIN) :]
    name = _NAME.match(rest)
    if name is None:
        return False if rest else None
    rest = rest[name.end() :]
    return True if rest.startswith(_AFTER_NAME) else None if rest in _PREFIXES else False


_PREFIXES = frozenset(text[:size] for text in _AFTER_NAME for size in range(len(text)))
