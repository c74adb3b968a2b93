"""The share of exactly right calls: with the prompt alone, and with each mechanism that makes calls more reliable.

Rule: a real llama-server and the same requests for every row; the trained model decodes greedily.

Run `python -m benchmarks.reliability --plot docs/images/reliability.svg`; it takes some minutes.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from benchmarks.constrain import is_valid
from benchmarks.report import Report, arguments
from fcshim import Client, demo
from fcshim.evaluate.plot import check_plot
from fcshim.evaluate.runner import evaluate
from fcshim.evaluate.suite import COMMANDS, load_cases
from fcshim.evaluate.summary import Rate, rate
from fcshim.events import JSON
from fcshim.pipeline.backends import BACKENDS, Backend
from tests.engine.llama_server import SLOTS, running
from tests.engine.odd_values import MAX_TOKENS, Command, command, count_right, unoffered_command
from tests.engine.program import find_llama_server
from tests.engine.random_models import write_random_model
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import byte_level_vocabulary, sentencepiece_vocabulary

# Two servers like llama-server, each without one ability, to measure the effect of that ability.
NO_GRAMMAR = Backend("no-grammar", "continues a last assistant message, accepts no grammar", prefill="plain")
NO_PREFILL = Backend("no-prefill", "accepts a grammar, continues no message", form="gbnf")

PROMPT_ONLY: Mapping[str, JSON] = {"rescue": False, "max_retries": 0, "constrain": "off"}
DEFAULT = "retries under a grammar, resumption (default)"
CONFIGURATIONS: Mapping[str, Mapping[str, JSON]] = {
    "the prompt alone": PROMPT_ONLY,
    "every format read": {"max_retries": 0, "constrain": "off"},
    "retries in words": {"constrain": "off"},
    "retries in words, resumption": {"constrain": NO_GRAMMAR.name},
    "retries under a grammar": {"constrain": NO_PREFILL.name},
    "retries under a grammar, arguments sent whole": {"constrain": NO_PREFILL.name, "arguments": "validated"},
    DEFAULT: {},
    "eager grammar": {**PROMPT_ONLY, "constrain": "llama-server-eager"},
    "lazy grammar": {**PROMPT_ONLY, "constrain": "llama-server-lazy"},
    "eager grammar, retries, resumption": {"constrain": "llama-server-eager"},
}
PLOTTED = ("the prompt alone", "every format read", "retries in words", DEFAULT, "eager grammar", "lazy grammar")


class OddRequests(NamedTuple):
    """A kind of requests with odd values; `limit` is the server's own token limit, the client then sets none."""

    make: Callable[[int], Command] = command
    streamed: bool = False
    limit: int | None = None


COMMON_COMMANDS, ODD_VALUES, ODD_VALUES_STREAMED = "commands", "odd values, ten tools", "the same, streamed"
SHORT_LIMIT = 45
"""Tokens: less than nearly every call takes, and more than half of one."""
ODD_COLUMNS: Mapping[str, OddRequests] = {
    ODD_VALUES: OddRequests(),
    ODD_VALUES_STREAMED: OddRequests(streamed=True),
    "streamed, arguments in another order": OddRequests(partial(command, shuffled=True), streamed=True),
    "streamed, tool not offered": OddRequests(unoffered_command, streamed=True),
    "truncated by the server": OddRequests(limit=SHORT_LIMIT),
    "streamed, truncated by the server": OddRequests(streamed=True, limit=SHORT_LIMIT),
}
RANDOM_MODELS = {
    "random weights, SentencePiece": sentencepiece_vocabulary,
    "random weights, bytes": byte_level_vocabulary,
}
COLUMNS = (COMMON_COMMANDS, *ODD_COLUMNS, *RANDOM_MODELS)
PLOTTED_COLUMNS = (COMMON_COMMANDS, ODD_VALUES, ODD_VALUES_STREAMED, *RANDOM_MODELS)
SAMPLING: Mapping[str, JSON] = {"temperature": 0, "seed": 1, "max_tokens": 400}
RANDOM_TOKENS = 1_000
"""A random model writes long values, so the limit is high: the schemas should decide what is valid, not the limit."""

Row = dict[str, Rate]


def main() -> int:
    """Measure, report, draw the chart if requested, and return the exit status."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the rates, as SVG or PNG")
    options = parser.parse_args()
    if options.plot is not None:
        check_plot(options.plot)
    report = Report("reliability")
    rows = _measure(60 if options.quick else 300)
    table_rows = [
        (means, *(f"{row[name].right} of {row[name].tried}" for name in COLUMNS)) for means, row in rows.items()
    ]
    report.table("exactly right", ("", *COLUMNS), table_rows)
    for name in (ODD_VALUES, ODD_VALUES_STREAMED):
        errors = _error_count(rows[DEFAULT][name]) / max(_error_count(rows["the prompt alone"][name]), 1)
        report.bar(f"{name}: errors by default, beside those of the prompt alone", errors, 0.5, "x")
    for name in RANDOM_MODELS:
        report.bar(f"{name}: required calls that are not valid", _error_count(rows[DEFAULT][name]), 0)
    if options.plot is not None:
        _draw({means: rows[means] for means in PLOTTED}, PLOTTED_COLUMNS, options.plot)
    return report.finish(options.json)


def _measure(count: int) -> dict[str, Row]:
    """Return the rates by configuration, and then by model and kind of requests."""
    program = find_llama_server(patient=True)
    rows: dict[str, Row] = {means: {} for means in CONFIGURATIONS}
    simulated = patch.dict(BACKENDS, {each.name: each for each in (NO_GRAMMAR, NO_PREFILL)})
    with tempfile.TemporaryDirectory() as name, simulated:
        folder = Path(name)
        for limit in dict.fromkeys(each.limit for each in ODD_COLUMNS.values()):
            predict = [] if limit is None else ["--predict", str(limit)]
            model = Path(demo.__file__).parent / "tiny.gguf"
            with running(program, model, folder, "--temp", "0", *predict) as server:
                for means, settings in CONFIGURATIONS.items():
                    rows[means] |= asyncio.run(_trained_model_rates(server.url, count, limit, settings))
        for kind, vocabulary in RANDOM_MODELS.items():
            model = folder / "random.gguf"
            write_random_model(model, vocabulary())
            with running(program, model, folder) as server:
                for means, settings in CONFIGURATIONS.items():
                    rows[means][kind] = asyncio.run(_random_model_rate(server.url, count // 3, settings))
    return rows


async def _trained_model_rates(url: str, count: int, limit: int | None, settings: Mapping[str, JSON]) -> Row:
    """Send all requests that belong to a server with this token limit."""
    row: Row = {}
    if limit is None:
        async with Client(url, **settings) as client:
            commands = await evaluate(client, load_cases([COMMANDS]), sampling=SAMPLING, concurrency=SLOTS)
        row[COMMON_COMMANDS] = rate(sum(each.right for each in commands), len(commands))
    max_tokens = MAX_TOKENS if limit is None else None
    for column, (make, streamed, column_limit) in ODD_COLUMNS.items():
        if column_limit == limit:
            made = map(make, range(count))
            right = await count_right(url, made, streamed=streamed, max_tokens=max_tokens, **settings)
            row[column] = rate(right, count)
    return row


async def _random_model_rate(url: str, count: int, settings: Mapping[str, JSON]) -> Rate:
    """Require calls of a random model, and return the rate of replies with nothing but valid calls."""
    names = list(SCHEMAS)
    slots = asyncio.Semaphore(SLOTS)
    async with Client(url, **settings) as client:

        async def is_right(number: int) -> bool:
            name = names[number % len(names)]
            tool = {"type": "function", "function": {"name": name, "parameters": SCHEMAS[name]}}
            fields = {"tool_choice": "required", "temperature": 1.0, "max_tokens": RANDOM_TOKENS, "seed": number}
            async with slots:
                return is_valid(await client.complete(f"Go {number}.", [tool], **fields), [name], alone=False)

        return rate(sum(await asyncio.gather(*map(is_right, range(count)))), count)


def _error_count(result: Rate) -> int:
    return result.tried - result.right


def _draw(rows: Mapping[str, Row], columns: Sequence[str], path: Path) -> None:
    """Draw a group of bars for each model and kind of requests, with a bar for each configuration."""
    from matplotlib import rc_context  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(rows)
    for at, (means, row) in enumerate(rows.items()):
        rates = [row[name] for name in columns]
        axes.bar(
            [place - 0.4 + width * (at + 0.5) for place in range(len(columns))],
            [100 * each.share for each in rates],
            width,
            yerr=[
                [100 * (each.share - each.low) for each in rates],
                [100 * (each.high - each.share) for each in rates],
            ],
            capsize=2,
            error_kw={"linewidth": 0.8},
            label=means,
        )
    axes.set_xticks(range(len(columns)), [name.replace(", ", ",\n") for name in columns], fontsize=8)
    axes.set_ylim(0, 102)
    axes.set_ylabel("exactly right, %, with 95 % intervals", fontsize=8)
    figure.legend(fontsize=8, ncols=3, loc="outside lower center", frameon=False)
    # Text is written as text instead of outlines, and the same rates give the same file.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "fcshim"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    sys.exit(main())
