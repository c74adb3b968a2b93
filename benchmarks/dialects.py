"""The cost per chunk of parsing each kind of dialect, and of parsing all dialects at once.

Rule: CPU time of this process, best of interleaved rounds; a bar compares numbers of one run.
"""

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.parser import CHUNK, CODE, PROSE, split, time_feed
from benchmarks.report import Report
from benchmarks.report import arguments as options_parser
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.prompt.render import render_calls

KEYS = {"path": {"type": "string"}, "content": {"type": "string"}, "rows": {"type": "array"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": KEYS}}}]
SIZES = (1_000, 100_000, 1_000_000)
SMALL_VALUES_SIZE = 20_000
"""Characters of a call with many small values."""
STRING_START = "§"
ROUNDS = 5
_VALUES = "small values"
_ENDS = "strings before closing brackets"
_CALLS = "many small calls"
_SMALL_VALUES_LIMITS = {"pythonic": 3, "qwen3_xml": 3}
"""Higher bars, in microseconds, for dialects whose values are transcoded, or scanned for their end before parsing."""
MEASURED = ("function_call", "hermes", "qwen3_xml", "pythonic", "deepseek_v31", "kimi_k2")
CODE_REPLY = "const a = {b: [1, 2]};\nif (a < b && c > d) { f(a[0], \"<div>\"); }\n  // [note] 'x' -> {y}\n"
LIST_REPLY = (
    "- bring bread\n- [ ] open item\n- [x] done\n1. First this\n2. **Then** that\n- [map](http://x.org)\n[1] A source\n"
)


@dataclass(frozen=True, slots=True)
class ParserSetup:
    """The options of a parser, and the dialect of the replies that it parses."""

    name: str
    reply_dialect: str
    options: dict[str, object]


SETUPS = [
    *(ParserSetup(name, name, {"dialect": name}) for name in MEASURED if name in DIALECTS),
    ParserSetup("auto, hermes", "hermes", {"dialect": "auto"}),
    ParserSetup("rescue, hermes", "hermes", {"dialect": "function_call", "rescue": True}),
]


def main() -> int:
    """Measure, report and return the exit status: 1 if a bar was missed."""
    options = options_parser("Measure the dialects.").parse_args()
    report = Report("dialects")
    sizes = SIZES[:-1] if options.quick else SIZES
    rows = {setup.name: _measure(setup, sizes, 2 if options.quick else ROUNDS) for setup in SETUPS}
    titles = list(next(iter(rows.values())))
    report.table(
        f"StreamParser, us per chunk of {CHUNK}; `whole` is the largest reply in one piece",
        ["dialect", *titles],
        [[name, *(cost * 1e6 for cost in costs.values())] for name, costs in rows.items()],
    )
    for name, costs in rows.items():
        report.bar(f"{name}, small values", costs.pop(_VALUES) * 1e6, _SMALL_VALUES_LIMITS.get(name, 2), "us")
        del costs[_ENDS], costs[_CALLS]  # without bars: the table shows them
        report.bar(f"{name}, dearest of the other chunks", max(costs.values()) * 1e6, 2, "us")
        by_size = [costs[_title(size)] for size in sizes]
        report.bar(f"{name}, {_title(sizes[-1])} over {_title(sizes[0])}", by_size[-1] / by_size[0], 1.2, "x")
    return report.finish(options.json)


def _title(size: int) -> str:
    return f"string, {size // 1000:,} KB"


def _measure(setup: ParserSetup, sizes: tuple[int, ...], rounds: int) -> dict[str, float]:
    largest = sizes[-1]
    streams: dict[str, tuple[str, str, int]] = {
        "prose": ("", (PROSE * (100_000 // len(PROSE)))[:100_000], CHUNK),
        "code": ("", (CODE_REPLY * (100_000 // len(CODE_REPLY)))[:100_000], CHUNK),
        "lists": ("", (LIST_REPLY * (100_000 // len(LIST_REPLY)))[:100_000], CHUNK),
        **{_title(size): (*_string_stream(setup.reply_dialect, size), CHUNK) for size in sizes},
        "whole": ("", "".join(_string_stream(setup.reply_dialect, largest)), largest * 2),
        _VALUES: ("", _values_stream(setup.reply_dialect), CHUNK),
        _ENDS: ("", _string_ends_stream(setup.reply_dialect), CHUNK),
        _CALLS: ("", _calls_stream(setup.reply_dialect), CHUNK),
    }
    best = dict.fromkeys(streams, float("inf"))
    for _ in range(rounds):
        for title, stream in streams.items():
            for _ in range(max(1, 20_000 // len(stream[1]))):
                best[title] = min(best[title], _time(setup, *stream))
    return best


@functools.cache
def _string_stream(dialect: str, size: int) -> tuple[str, str]:
    """Return the text of a call up to the start of a long string, and the string."""
    content = STRING_START + CODE * (size // len(CODE) + 1)
    text = render_calls(
        DIALECTS[dialect], [("f", json.dumps({"path": "a.py", "content": content}, ensure_ascii=False))]
    )
    before, _, string = text.partition(STRING_START)
    return before, string[:size]


@functools.cache
def _values_stream(dialect: str) -> str:
    """Return the text of a call with many small values."""
    rows = [
        {"id": number, "name": f"n{number}", "tags": ["x", None], "on": True}
        for number in range(SMALL_VALUES_SIZE // 56)
    ]
    return render_calls(DIALECTS[dialect], [("f", json.dumps({"rows": rows}))])


@functools.cache
def _string_ends_stream(dialect: str) -> str:
    """Return the text of a call with many strings before closing brackets."""
    rows = [{"name": f"n{number}", "tags": ["x", "yy"], "in": {"k": "v"}} for number in range(SMALL_VALUES_SIZE // 56)]
    return render_calls(DIALECTS[dialect], [("f", json.dumps({"rows": rows}))])


@functools.cache
def _calls_stream(dialect: str) -> str:
    """Return the text of many calls with small values."""
    calls = [("f", json.dumps({"path": f"p{number}.txt", "rows": ["a", number, True]})) for number in range(200)]
    return render_calls(DIALECTS[dialect], calls)


def _time(setup: ParserSetup, before: str, text: str, chunk: int) -> float:
    parser = StreamParser(tools=TOOLS, **setup.options)  # type: ignore[arg-type] # chosen above
    parser.feed(before)
    feed: Callable[[str], object] = parser.feed
    return time_feed(feed, split(text, chunk)) / (len(text) / CHUNK)


if __name__ == "__main__":
    sys.exit(main())
