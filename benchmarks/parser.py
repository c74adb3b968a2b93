"""The cost of the parser: per chunk, compared with re-parsing at each chunk, and on hostile replies.

Rule: CPU time of this process, best of interleaved rounds; a bar compares numbers of one run.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jiter
import json_repair
import partial_json_parser

from benchmarks.report import Report, arguments, slope
from fcshim.parse.stream import StreamParser
from tests.parse.hostile import BODY, FAMILIES, IN_DIALECTS

TOOLS = [{"type": "function", "function": {"name": "f"}}]
CHUNK = 4
SIZES = [1_000, 10_000, 100_000, 1_000_000]
PROSE = 'The **weather** in Paris is "fine": 21 °C, a < b.\n\n- see [the map](http://x.org/?a=1), or ask `again`\n'
CODE = 'def f(a: int) -> str:\n\t"""Add one."""\n    return f"{a + 1}" if a < 7 else \'\\\\\'\n'
ROUNDS = 7
SAMPLES = 16
REPARSERS: dict[str, tuple[Callable[[str], object], int]] = {
    "jiter, partial": (lambda text: jiter.from_json(text.encode(), partial_mode="trailing-strings"), 1_000_000),
    "partial-json-parser": (partial_json_parser.loads, 100_000),
    "json-repair": (json_repair.loads, 10_000),
}
"""JSON parsers with the largest size to measure: all of them parse the whole text again at every chunk."""


@dataclass(frozen=True, slots=True)
class ParserInput:
    """The text that a parser is fed before the measurement starts, and the text of the measurement."""

    before: str
    text: str


class NoOpParser:
    """The lower bound of a measurement: a method that does nothing."""

    def feed(self, text: str) -> None:
        """Do nothing."""


def main() -> int:
    """Measure, report and return the exit status: 1 if a bar was missed."""
    options = arguments("Measure the parser.").parse_args()
    report = Report("parser")
    sizes = SIZES[:-1] if options.quick else SIZES
    rounds = 3 if options.quick else ROUNDS
    _measure_chunks(report, sizes, rounds)
    _compare_with_reparsing(report, sizes[:-1] if options.quick else sizes)
    _measure_hostile(report, [1_000, 10_000, 40_000] if options.quick else SIZES)
    return report.finish(options.json)


def text_stream(size: int) -> ParserInput:
    """Return prose with Markdown."""
    return ParserInput("", (PROSE * (size // len(PROSE) + 1))[:size])


def string_stream(size: int) -> ParserInput:
    """Return a call with one long string of code, like a call that writes a file."""
    escaped = json.dumps(CODE)[1:-1]
    return ParserInput(BODY + '{"path": "a.py", "content": "', escaped * (size // len(escaped) + 1))


def values_stream(size: int) -> ParserInput:
    """Return a call with many small values."""
    rows = [{"id": number, "name": f"n{number}", "tags": ["x", None], "on": True} for number in range(size // 56 + 1)]
    return ParserInput(BODY + '{"rows": [', json.dumps(rows)[1:-1])


KINDS = {"text": text_stream, "a long string": string_stream, "small values": values_stream}


def _measure_chunks(report: Report, sizes: Sequence[int], rounds: int) -> None:
    floor = _empty_call_seconds()
    titles = [f"{size // 1000:,} KB" for size in sizes]
    costs = {kind: _interleaved({size: make(size) for size in sizes}, rounds) for kind, make in KINDS.items()}
    report.table(
        f"StreamParser; floor: an empty method call, {floor * 1e9:.0f} ns",
        [f"us per chunk of {CHUNK}", *titles, "x floor"],
        [
            [kind, *(cost * 1e6 for cost in by_size.values()), max(by_size.values()) / floor]
            for kind, by_size in costs.items()
        ],
    )
    for kind, by_size in costs.items():
        report.bar(f"{kind}, dearest chunk", max(by_size.values()) * 1e6, 2, "us")
        report.bar(f"{kind}, {titles[-1]} over {titles[0]}", by_size[sizes[-1]] / by_size[sizes[0]], 1.2, "x")


def _empty_call_seconds() -> float:
    parser, pieces = NoOpParser(), ["abcd"] * 100_000
    return min(time_feed(parser.feed, pieces) for _ in range(5)) / len(pieces)


def _interleaved(streams: dict[int, ParserInput], rounds: int) -> dict[int, float]:
    """Return seconds per chunk for each size: the best of several rounds over all sizes."""
    best = dict.fromkeys(streams, float("inf"))
    for _ in range(rounds):
        for size, stream in streams.items():
            for _ in range(max(1, 20_000 // size)):
                best[size] = min(best[size], _time_stream(stream))
    return best


def _time_stream(stream: ParserInput) -> float:
    pieces = split(stream.text)
    parser = StreamParser(tools=TOOLS)
    parser.feed(stream.before)
    return time_feed(parser.feed, pieces) / len(pieces)


def time_feed(feed: Callable[[str], object], pieces: Sequence[str]) -> float:
    began = time.process_time()
    for piece in pieces:
        feed(piece)
    return time.process_time() - began


def _compare_with_reparsing(report: Report, sizes: Sequence[int]) -> None:
    """Compare with parsing the arguments again at each chunk, at sampled positions of the stream."""
    rows: list[list[str | float | None]] = []
    ours = {size: _interleaved({size: string_stream(size)}, 2)[size] * 1e6 for size in sizes}
    rows.append(["StreamParser", *(ours[size] for size in sizes)])
    for name, (read, largest) in REPARSERS.items():
        costs = {size: _time_reparsing(read, size) for size in sizes if size <= largest}
        rows.append([name, *(costs.get(size) for size in sizes)])
        rows.append(["  x StreamParser", *(costs[size] / ours[size] if size in costs else None for size in sizes)])
    titles = [f"{size // 1000:,} KB" for size in sizes]
    report.table("A chunk of arguments, beside re-parsing; us per chunk, mean over the stream", ["", *titles], rows)


def _time_reparsing(read: Callable[[str], object], size: int) -> float:
    stream = string_stream(size)
    text = '{"path": "a.py", "content": "' + stream.text
    ends = [len(text) * sample // SAMPLES // CHUNK * CHUNK or CHUNK for sample in range(1, SAMPLES + 1)]
    began = time.process_time()
    for end in ends:
        read(text[:end])
    return (time.process_time() - began) / len(ends) * 1e6


def _measure_hostile(report: Report, sizes: Sequence[int]) -> None:
    """Measure every family in one chunk and in small chunks; sizes after one that takes seconds are skipped."""
    families = {name: ("function_call", make) for name, make in FAMILIES.items()} | IN_DIALECTS
    for dialect, make in families.values():
        _time_reply(dialect, make(1_000), 1_000)
    rows = []
    slopes, dearest = {}, {}
    for way, chunk in (("whole", sizes[-1]), ("pieces", CHUNK)):
        for name, (dialect, make) in families.items():
            costs = _time_by_size(dialect, make, sizes, chunk)
            per_character = {size: cost * 1e6 / size for size, cost in costs.items()}
            slopes[name, way] = slope(list(costs), list(costs.values()))
            dearest[name, way] = max(per_character.values())
            rows.append([f"{name}, {way}", *(per_character.get(size) for size in sizes), slopes[name, way]])
    titles = [f"{size // 1000:,} KB" for size in sizes]
    report.table("Hostile replies, us per character", ["family", *titles, "slope"], rows)
    _report_worst(report, "log-log slope", slopes, 1.1, "")
    _report_worst(report, "dearest character", dearest, 10, "us")


def _report_worst(report: Report, title: str, values: dict[tuple[str, str], float], limit: float, unit: str) -> None:
    """Report every family that misses its bar, and always the worst one."""
    ordered = sorted(values, key=values.__getitem__, reverse=True)
    for at, key in enumerate(ordered):
        if at == 0 or values[key] > limit:
            report.bar(f"{title}: {', '.join(key)}", values[key], limit, unit)


def _time_by_size(dialect: str, make: Callable[[int], str], sizes: Sequence[int], chunk: int) -> dict[int, float]:
    """Time replies of each size, of small ones as many as give a similar number of characters: noise is then alike."""
    costs: dict[int, float] = {}
    for size in sizes:
        text = make(size)
        costs[size] = _mean_time(dialect, text, chunk, max(1, sizes[-1] // 5 // size))
        if costs[size] > 3:
            break
    return costs


def _mean_time(dialect: str, text: str, chunk: int, count: int) -> float:
    return sum(_time_reply(dialect, text, chunk) for _ in range(count)) / count


def _time_reply(dialect: str, text: str, chunk: int) -> float:
    pieces = split(text, chunk)
    parser = StreamParser(dialect, TOOLS)
    gc.collect()
    took = time_feed(parser.feed, pieces)
    began = time.process_time()
    parser.close()
    return took + time.process_time() - began


def split(text: str, chunk: int = CHUNK) -> list[str]:
    return [text[at : at + chunk] for at in range(0, len(text), chunk)]


if __name__ == "__main__":
    sys.exit(main())
