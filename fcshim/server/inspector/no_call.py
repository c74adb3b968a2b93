"""Says why the client got no call although tools were offered, and which setting cures it.

Rule: a setting is named only where it was tried: the reply is parsed again with it, and has a call then; or where it is
the one that decides about the defect. The first cause that holds counts: a defect of the reply, its end, its text.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fcshim.events import Event, Reasoning, Stop, Text, ToolCallEnd
from fcshim.parse.dialects import AUTO
from fcshim.pipeline.no_call import KIND_OF_DEFECT
from fcshim.server.inspector.capture import CapturedRequest
from fcshim.server.inspector.parsed_text import new_parser
from fcshim.server.inspector.summary import (
    REJECTED,
    delivered,
    dialect_of,
    dialect_reason_of,
    find_invalid_call,
    outcome_of,
    tool_calling_of,
)

_MAX_TRIED = 200_000
"""Characters of a reply that are parsed again, once for each setting: a tenth of a second."""
_MAX_NAMED = 5
_CODE_BLOCK = re.compile(r"^ {0,3}(?:```|~~~)[^\n]*\n.*?(?:^ {0,3}(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL)
_DOCTOR = "fcshim doctor finds the dialect and the prompt that suit the model"


class MissingCall(msgspec.Struct, frozen=True):
    """Why there is no call, in a sentence.

    `kind` is as in `pipeline.no_call`, or `dialect`; `cure` is a setting or a command, empty where none is known.
    `dialect` says in which format calls are expected, and why; empty where the upstream reads them.
    """

    kind: str
    reason: str
    cure: str = ""
    dialect: str = ""


_ASK_AGAIN = "--max-retries asks more often"
_DEFECTS = {
    "result": ("The model invented a tool's result in place of a call", _DOCTOR),
    "copied": ("The model repeated the instructions in place of a call", f"--prompt-style; {_DOCTOR}"),
    "unreadable": ("The model wrote a call that could not be read", _ASK_AGAIN),
    "unoffered": ("The model called a tool that is not offered", "offer the tool in the request"),
    "repeated": (
        "The call was refused, because it gave the same result again and again",
        "--repeatable-tools admits tools that poll",
    ),
    "bad": ("The model wrote a call with an error", _ASK_AGAIN),
    "broken": ("The model wrote a call with an error", _ASK_AGAIN),
    "missing": ("A call was demanded, and the model wrote none", _DOCTOR),
}
"""By the kind of a defect, in the order in which they count: the reason of a missing call and its cure."""
_OF_OUTCOMES = {"not_offered": "unoffered", "malformed": "unreadable"}


def explain_no_call(capture: CapturedRequest) -> MissingCall | None:
    """Return why the client got no call that fits its schema; None if it got one, an error, or was offered no tools."""
    events = [event for reply in delivered(capture) for _, event in reply.events]
    outcome = outcome_of(capture, events)
    if not capture.tools or {"running", "error", "withheld"} & set(outcome):
        return None
    found = _invalid_call(capture, events) if "calls" in outcome else _cause(capture, events, outcome)
    if found is None:
        return None
    dialect, reason = dialect_of(capture), dialect_reason_of(capture)
    source = f"Dialect: {dialect}. Reason: {reason or 'the settings'}. Setting: --dialect." if dialect else ""
    return msgspec.structs.replace(found, reason=f"{found.reason}.", dialect=source)


def _invalid_call(capture: CapturedRequest, events: Sequence[Event]) -> MissingCall | None:
    """Return that a call was delivered although its arguments do not fit, also after the retries."""
    found = find_invalid_call(capture, events)
    if found is None:
        return None
    retries = sum(bool(attempt.reason) for attempt in capture.attempts)
    asked = f" after {retries} {'retry' if retries == 1 else 'retries'}" if retries else ""
    reason = f"The client got a call of {found.name} whose arguments do not fit its schema{asked}: {found.violation}"
    return MissingCall("invalid", reason, f"{_ASK_AGAIN}; --invalid-calls error delivers none")


def _cause(capture: CapturedRequest, events: Sequence[Event], outcome: Sequence[str]) -> MissingCall | None:
    found = _defect(capture)
    text = "".join(event.text for event in events if isinstance(event, Text))
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    if found is not None:
        return found
    tried = _setting_that_finds_a_call(capture, truncated="truncated" in outcome)
    if tried is not None:
        return tried
    if "truncated" in outcome:
        place = "in its reasoning" if reasoning and not text.strip() else "before a call was complete"
        return MissingCall(
            "token_limit", f"The reply was cut off by the token limit {place}", "more max_tokens in the request"
        )
    if not text.strip() and not reasoning.strip():
        return _empty_reply(capture, events)
    return _named_tool(capture, text, reasoning)


def _defect(capture: CapturedRequest) -> MissingCall | None:
    """Return the defect of the last attempt that had one."""
    for attempt in reversed(capture.attempts):
        kind = next((kind for kind in _DEFECTS if kind in attempt.defects), None)
        if kind is not None:
            reason, cure = _DEFECTS[kind]
            said = f": {attempt.defect}" if attempt.defect and kind not in {"result", "copied", "missing"} else ""
            return MissingCall(KIND_OF_DEFECT[kind], reason + said, cure)
    rejected = sorted({call.outcome for call in capture.calls} & REJECTED)
    if not rejected:
        return None
    words = ", ".join(rejected).replace("_", " ")
    kind = _OF_OUTCOMES.get(rejected[0], "invalid")
    return MissingCall(kind, f"The model wrote a call that was not accepted: {words}", _DOCTOR)


class _Trial(NamedTuple):
    """Settings under which a reply is parsed again."""

    kind: str
    reason: str
    cure: str
    settings: dict[str, str | bool]
    needs_tags: bool = False
    """Whether the reasoning that the upstream has separated is put back into the text."""


_SEPARATED = "start the model's server so that it leaves reasoning in the text (llama-server: --reasoning-format none)"
_TRIALS = (
    _Trial(
        "reasoning", "The call stands in reasoning that was not closed", "--reasoning recover", {"reasoning": "recover"}
    ),
    _Trial("reasoning", "The call stands in the reasoning", "--reasoning promote", {"reasoning": "promote"}),
    _Trial(
        "reasoning",
        "The call stands in reasoning that was not closed, and that the upstream has separated",
        f"--reasoning recover; {_SEPARATED}",
        {"reasoning": "recover"},
        needs_tags=True,
    ),
    _Trial(
        "reasoning",
        "The call stands in the reasoning that the upstream has separated",
        f"--reasoning promote; {_SEPARATED}",
        {"reasoning": "promote"},
        needs_tags=True,
    ),
    _Trial("dialect", "The call is written in another dialect", "--rescue", {"rescue": True}),
    _Trial("dialect", "The call is written in another dialect", "--dialect auto, or its own", {"dialect": AUTO}),
)


def _setting_that_finds_a_call(capture: CapturedRequest, *, truncated: bool) -> MissingCall | None:
    """Parse the last reply again with other settings; return the first that finds a call."""
    if tool_calling_of(capture) != "prompt":
        return None
    written = _written(capture, tagged=False)
    tagged = _written(capture, tagged=True)
    for trial in _TRIALS:
        text = tagged if trial.needs_tags else written
        if (not trial.needs_tags or tagged != written) and _has_call(capture, trial, text, truncated=truncated):
            return MissingCall(trial.kind, trial.reason, trial.cure)
    return None


def _written(capture: CapturedRequest, *, tagged: bool) -> str:
    """Return what the model wrote in the last attempt; `tagged`: with separate reasoning between its usual tags."""
    pieces = capture.decoded(capture.attempts[-1])[0].pieces
    reasoning = "".join(piece.text for piece in pieces if piece.kind == "reasoning") if tagged else ""
    text = "".join(piece.text for piece in pieces if piece.kind == "text")
    if reasoning:
        text = f"<think>{reasoning}" + (f"</think>{text}" if text.strip() else "")
    return text[:_MAX_TRIED]


def _has_call(capture: CapturedRequest, trial: _Trial, text: str, *, truncated: bool) -> bool:
    if capture.model_config is None or not text.strip():
        return False
    model = msgspec.structs.replace(capture.model_config, **trial.settings)
    if trial.needs_tags:
        model = msgspec.structs.replace(model, open_reasoning_tag="")
    parser = new_parser(model, capture.model, capture.tools)
    if parser is None:
        return False
    parsed = [*parser.feed(text), *parser.close("max_tokens" if truncated else "complete")]
    return any(isinstance(event, ToolCallEnd) and event.error is None for event in parsed)


def _empty_reply(capture: CapturedRequest, events: Sequence[Event]) -> MissingCall:
    """Return that the reply has nothing at all; what the upstream counted says where to look."""
    stop = next((event.stop_reason for event in events if isinstance(event, Stop)), "")
    count = 0 if capture.usage is None else capture.usage.output_tokens
    written = (
        f" The upstream counted {count:,} tokens: it keeps them back, or writes them elsewhere" if count > 1 else ""
    )
    reason = f"The reply is empty{f', and ended with {stop}' if stop else ''}.{written}".removesuffix(".")
    if count > 1:
        return MissingCall("empty", reason, "--tools native asks the upstream's own tool calling")
    return MissingCall("empty", reason, f"--profile: the chat template may not take these messages; {_DOCTOR}")


def _named_tool(capture: CapturedRequest, text: str, reasoning: str) -> MissingCall:
    """Say where the reply names an offered tool, as text that was not read as a call."""
    by_prompt = tool_calling_of(capture) == "prompt"
    places = {
        "quoted": (
            " in a code block: it counts as quoted, unless the block has only calls and nothing follows it",
            "".join(_CODE_BLOCK.findall(text)),
        ),
        "answer": (" in its text, but not as a call in a syntax that is read here", text),
        "reasoning": (" in its reasoning, but not as a call in a syntax that is read here", reasoning),
    }
    reader = "The model wrote no call" if by_prompt else "The upstream reads calls itself and found none"
    cure = _DOCTOR if by_prompt else "--tools prompt lets fcshim read the calls"
    for kind, (place, written) in places.items():
        named = [tool.name for tool in capture.tools if tool.name in written]
        if named:
            return MissingCall(kind, f"{reader}. It names {', '.join(named[:_MAX_NAMED])}{place}", cure)
    return MissingCall("answer", f"{reader}, and the reply names no offered tool", cure)
