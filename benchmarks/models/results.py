"""The files of results of one model in one mode: a line for each task, with the raw replies, written as it arrives."""

from pathlib import Path
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from benchmarks.models.loops import LoopResult
from benchmarks.models.relay import RawReply
from fcshim.evaluate.result import ActualCall, Verdict

CaseVerdict: TypeAlias = Verdict | Literal["missing_fact", "markup"]
"""The last two are for conversations: rightly no call, but the text lacks a fact; all is right, but the text has markup
of calls or results."""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case: the verdict, what the client got, and what the model wrote in each attempt."""

    id: str
    category: str
    verdict: CaseVerdict
    calls: tuple[ActualCall, ...] = ()
    text: str = ""
    raw: tuple[RawReply, ...] = ()
    seconds: float = 0.0
    problem: str = ""


ResultT = TypeVar("ResultT", CaseResult, LoopResult)


class Results(Generic[ResultT]):
    """The results of one kind, and the file that keeps them. A line that was cut off is dropped."""

    def __init__(self, path: Path, kind: type[ResultT]) -> None:
        self.path = path
        self.by_id: dict[str, ResultT] = {}
        if path.exists():
            data = path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if len(whole) != len(data):
                path.write_bytes(whole)
            for line in whole.splitlines():
                result = msgspec.json.decode(line, type=kind)
                self.by_id[result.id] = result

    def add(self, result: ResultT) -> None:
        """Append a result to the file."""
        self.by_id[result.id] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")


def case_results(folder: Path, mode: str) -> Results[CaseResult]:
    """Return the results of BFCL's cases of one model."""
    return Results(folder / f"{mode}.jsonl", CaseResult)


def conversation_results(folder: Path, mode: str) -> Results[CaseResult]:
    """Return the results of the conversations of one model."""
    return Results(folder / f"{mode}.conversations.jsonl", CaseResult)


def loop_results(folder: Path, mode: str) -> Results[LoopResult]:
    """Return the results of the loops of one model."""
    return Results(folder / f"{mode}.loops.jsonl", LoopResult)
