"""Says why a reply has no call although tools were offered, for the log and the metrics."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from fcshim.events import Reasoning, Text
from fcshim.messages import Request
from fcshim.pipeline.attempt import Attempt
from fcshim.pipeline.attempt_filter import AttemptDefect, as_phrase
from fcshim.pipeline.shim import Shim

NoCallKind = Literal[
    "answer",
    "empty",
    "reasoning",
    "quoted",
    "token_limit",
    "unoffered",
    "unreadable",
    "invalid",
    "result",
    "copied",
    "repeated",
    "missing",
]
"""`answer`: text without any sign of a call. `empty`: no text. `reasoning`, `quoted`: a call there, which is not run.
`invalid`: a call that ended with an error; the other kinds are those of `AttemptDefect`."""
_PHRASES: dict[NoCallKind, str] = {
    "answer": "the model answered",
    "empty": "the reply is empty",
    "reasoning": "the call is in the reasoning, where none is read (--reasoning recover reads one that ends it)",
    "quoted": "the call is quoted, in code or as an example",
    "token_limit": "the token limit ended the reply before a call was complete",
}
KIND_OF_DEFECT: dict[str, NoCallKind] = {
    "missing": "missing",
    "unoffered": "unoffered",
    "unreadable": "unreadable",
    "result": "result",
    "copied": "copied",
    "repeated": "repeated",
    "bad": "invalid",
    "broken": "invalid",
}
"""By the kind of an `AttemptDefect`."""


class NoCall(NamedTuple):
    """Why a reply has no call: the kind, which is counted, and a phrase for the log."""

    kind: NoCallKind
    phrase: str
    tool_count: int
    dialect: str
    """Empty where the upstream reads calls itself."""


def explain_no_call(attempt: Attempt, defects: Sequence[AttemptDefect], stop_reason: str) -> NoCall | None:
    """Return why the reply that ended with `attempt` has no call; None if no tools were offered.

    `defects` are those that remain of the attempts that the client gets.
    """
    plan = attempt.plan
    request = plan if isinstance(plan, Request) else plan.request if isinstance(plan, Shim) else plan.prepared
    if not request.tools or request.tool_choice.mode == "none":
        return None
    dialect = plan.dialect.name if isinstance(plan, Shim) else ""
    if defects:
        kind, phrase = KIND_OF_DEFECT[defects[0].kind], as_phrase(defects)
    else:
        kind = _kind_of_text(attempt, stop_reason)
        phrase = _PHRASES[kind]
    return NoCall(kind, phrase, len(request.tools), dialect)


def _kind_of_text(attempt: Attempt, stop_reason: str) -> NoCallKind:
    if not attempt.output_size:
        return "empty"
    if stop_reason == "max_tokens":
        return "token_limit"
    text = attempt.transcript.text
    if not isinstance(attempt.plan, Shim) or not _has_marker(text, attempt.plan):
        return "answer"
    stream = attempt.plan.stream()
    events = [*stream.feed(Text(text)), *stream.close()]
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    return "reasoning" if _has_marker(reasoning, attempt.plan) else "quoted"


def _has_marker(text: str, shim: Shim) -> bool:
    """Return whether a text has a start marker of the dialect."""
    return any(marker.strip() in text for marker in _markers(shim) if marker.strip())


def _markers(shim: Shim) -> Iterable[str]:
    return (*shim.dialect.openers(), *shim.dialect.section.openers())
