"""Reads a mutant, and judges what was delivered against what was meant."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.stream import StreamParser
from fcshim.reply import fold
from fcshim.testing.mutations.seeds import Call
from fcshim.testing.mutations.structure import stands_as_written
from fcshim.testing.mutations.table import Mutant
from fcshim.testing.splits import random_split

Verdict = Literal["exact", "two readings", "error", "lost", "wrong"]
"""`exact`: the calls that were meant. `error`: some of them, and at least one call with an error; `two readings` where
that is right, because the reply may mean other calls too. `lost`: some of them. `wrong`: a call without an error that
was not meant."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The calls without an error, and whether there was one with an error."""

    calls: list[Call]
    failed: bool


def read(tools: Sequence[Tool], dialect: Dialect, mutant: Mutant, pieces: Sequence[str]) -> Delivered:
    """Read a mutant with the settings of the proxy: the selected dialect, and all others rescued."""
    parser = StreamParser(dialect, tools, rescue=True)
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close(mutant.stop_reason)
    ends = fold(events).tool_calls
    good = [end for end in ends if end.error is None]
    calls = [(end.tool_call_name, json.loads(end.tool_call_arguments_complete)) for end in good]
    return Delivered(calls, len(good) < len(ends))


def cuts(text: str, rng: random.Random) -> list[Sequence[str]]:
    """Return the text in one piece, by character, and cut at random."""
    return [[text], list(text), random_split(text, rng)]


def judge(delivered: Delivered, calls: Sequence[Call]) -> Verdict:
    """Compare the delivered calls with those that were meant."""
    meant, found = Counter(map(_key, calls)), Counter(map(_key, delivered.calls))
    if found - meant:
        return "wrong"
    if found == meant:
        return "exact"
    return "error" if delivered.failed else "lost"


def judge_mutant(delivered: Delivered, mutant: Mutant, dialect: Dialect) -> Verdict | None:
    """Compare the delivered calls with those that a mutant means; None where it is a valid reply that means them."""
    verdict = judge(delivered, mutant.calls)
    if verdict == "wrong" and stands_as_written(dialect, delivered.calls, mutant.text):
        return None
    return "two readings" if mutant.has_two_readings and verdict in {"error", "lost"} else verdict


def can_be_seen(tools: Sequence[Tool], dialect: Dialect, mutant: Mutant) -> bool:
    """Return whether the first of two mistakes leaves a reply that is not a valid one with another meaning."""
    if not mutant.first_text:
        return True
    first = replace(mutant, text=mutant.first_text)
    return judge_mutant(read(tools, dialect, first, [first.text]), first, dialect) is not None


def _key(call: tuple[str, Any]) -> str:
    return json.dumps(call, sort_keys=True)
