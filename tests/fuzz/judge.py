"""Run one document under many splits, report the law that it breaks, and shrink a document that breaks one.

Rule: one execution is one document under one split, checked against all laws and against the unsplit run.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.testing.shrinking import shrink
from fcshim.testing.splits import splits
from tests.fuzz.documents import Document
from tests.parse.cases import matches, strip_texts
from tests.parse.laws import LawBrokenError, Piece, check_reply


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that breaks a law under a split."""

    document: Document
    pieces: list[str]
    reason: str

    @property
    def law(self) -> str:
        """The law's name: the reason without the details of this text."""
        return ":".join(self.reason.split(":")[:2])

    def __str__(self) -> str:
        document = self.document
        return (
            f"seed {document.seed}: {self.reason}\n"
            f"  text:    {document.text!r}\n  split:   {self.pieces!r}\n"
            f"  tools:   {document.offered}\n  options: {document.options}, stop_reason={document.stop_reason!r}"
        )


def judge(document: Document) -> tuple[int, Failure | None]:
    """Return the number of executions of a document, and its first failure."""
    reference: list[Piece] | None = None
    executions = 0
    for pieces in _splits(document):
        executions += 1
        try:
            reference = _execute(document, pieces, reference)
        except Exception as error:  # noqa: BLE001  law 8: whatever leaves the parser here is a finding
            return executions, Failure(document, pieces, f"{type(error).__name__}: {error}")
    return executions, None


def shorten(failure: Failure) -> Failure:
    """Shorten the text of a failure as long as it still breaks the same law under some split."""
    text = shrink(failure.document.text, lambda text: _judge_shorter(failure, text) is not None)
    return _judge_shorter(failure, text) or failure


def _judge_shorter(failure: Failure, text: str) -> Failure | None:
    """Judge a shorter text, without expected events."""
    found = judge(replace(failure.document, text=text, events=None))[1]
    return found if found is not None and found.law == failure.law else None


def _splits(document: Document) -> Iterator[list[str]]:
    return itertools.chain([[document.text]], splits(document.text, random.Random(document.seed)))


def _execute(document: Document, pieces: Sequence[str], reference: list[Piece] | None) -> list[Piece]:
    parser = StreamParser(**document.options, tools=document.tools)
    events = [event for piece in pieces for event in parser.feed(piece)]
    finished = parser.finished
    events += parser.close(document.stop_reason)
    actual = check_reply(
        document.text,
        document.stop_reason,
        events,
        finished=finished,
        offered=document.offered,
        markup=[*_markup(document.options), *(f"<{name}>" for name in document.offered or ())],
    )
    if reference is None and document.events is not None:
        _compare(document, actual, finished=finished)
    if reference is not None and actual != reference:
        raise LawBrokenError(f"any split: whole {reference}, in pieces {actual}")
    return actual


def _markup(options: dict[str, Any]) -> list[str]:
    dialect = options.get("dialect", "function_call")
    rows = DIALECTS.values() if dialect == AUTO or options.get("rescue") else [DIALECTS[dialect]]
    markup = [token for row in rows for token in (*row.turn.tokens, *row.openers(), *row.section.openers()) if token]
    return [*markup, *(token.removeprefix("<|start|>assistant ") for token in markup)]


def _compare(document: Document, actual: list[Piece], *, finished: bool) -> None:
    expected = document.events or []
    if document.loose:
        expected, actual = strip_texts(expected), strip_texts(actual)
    if finished != document.finished or len(expected) != len(actual) or not all(map(matches, expected, actual)):
        raise LawBrokenError(f"meaning: expected {expected}, got {actual}")
