"""The file of results of one model in one mode: a line for each case, with the raw replies, written as it arrives."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from fcshim.evaluate.result import ActualCall, Verdict


class RawReply(msgspec.Struct, frozen=True):
    """The model's text of one attempt."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case: the verdict, what the client got, and what the model wrote in each attempt."""

    id: str
    category: str
    verdict: Verdict
    calls: tuple[ActualCall, ...] = ()
    text: str = ""
    raw: tuple[RawReply, ...] = ()
    seconds: float = 0.0
    problem: str = ""


class Results:
    """The results of one model in one mode, and the file that keeps them. A line that was cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_case: dict[str, CaseResult] = {}
        if path.exists():
            data = path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if len(whole) != len(data):
                path.write_bytes(whole)
            for line in whole.splitlines():
                result = msgspec.json.decode(line, type=CaseResult)
                self.by_case[result.id] = result

    def add(self, result: CaseResult) -> None:
        """Append a result to the file."""
        self.by_case[result.id] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")

    def of(self, cases: Iterable[str]) -> list[CaseResult]:
        """Return the results of these cases, as far as there are any."""
        return [self.by_case[case] for case in cases if case in self.by_case]
