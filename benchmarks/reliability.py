"""The share of exactly right calls: with the prompt alone, and with each mechanism that makes calls more reliable.

Rule: a real llama-server and the same requests for every row; the trained model decodes greedily.

Run `python -m benchmarks.reliability --plot docs/images/reliability.svg`; it takes some minutes.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.constrain import is_valid
from benchmarks.report import Report, arguments
from fcshim import Client, demo
from fcshim.evaluate.plot import check_plot
from fcshim.evaluate.runner import evaluate
from fcshim.evaluate.suite import COMMANDS, load_cases
from fcshim.evaluate.summary import Rate, rate
from fcshim.events import JSON
from tests.engine.llama_server import SLOTS, running
from tests.engine.odd_values import count_right
from tests.engine.program import find_llama_server
from tests.engine.random_models import write_random_model
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import byte_level_vocabulary, sentencepiece_vocabulary

PROMPT_ONLY: Mapping[str, JSON] = {"rescue": False, "max_retries": 0, "constrain": "off"}
GRAMMAR_RETRIES = "second tries under a grammar (as set up)"
CONFIGURATIONS: Mapping[str, Mapping[str, JSON]] = {
    "the prompt alone": PROMPT_ONLY,
    "every format read": {"max_retries": 0, "constrain": "off"},
    "second tries in words": {"constrain": "off"},
    GRAMMAR_RETRIES: {},
    "a grammar from the start": {**PROMPT_ONLY, "constrain": "llama-server-eager"},
    "the same, from where a call begins": {**PROMPT_ONLY, "constrain": "llama-server-lazy"},
    "everything": {"constrain": "llama-server-eager"},
}
COMMANDS_ASKED, ODD_VALUES, ODD_VALUES_STREAMED = "commands", "odd values, ten tools", "the same, streamed"
TRAINED_MODEL_COLUMNS = (COMMANDS_ASKED, ODD_VALUES, ODD_VALUES_STREAMED)
RANDOM_MODELS = {
    "random weights, SentencePiece": sentencepiece_vocabulary,
    "random weights, bytes": byte_level_vocabulary,
}
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
    columns = [*TRAINED_MODEL_COLUMNS, *RANDOM_MODELS]
    table_rows = [
        (means, *(f"{row[name].right} of {row[name].tried}" for name in columns)) for means, row in rows.items()
    ]
    report.table("exactly right", ("", *columns), table_rows)
    for name in (ODD_VALUES, ODD_VALUES_STREAMED):
        errors = _error_count(rows[GRAMMAR_RETRIES][name]) / max(_error_count(rows["the prompt alone"][name]), 1)
        report.bar(f"{name}: errors with second tries, beside those of the prompt alone", errors, 0.5, "x")
    for name in RANDOM_MODELS:
        report.bar(f"{name}: required calls that are not valid", _error_count(rows[GRAMMAR_RETRIES][name]), 0)
    if options.plot is not None:
        _draw(rows, columns, options.plot)
    return report.finish(options.json)


def _measure(count: int) -> dict[str, Row]:
    """Return the rates by configuration, and then by model and kind of requests."""
    program = find_llama_server(patient=True)
    rows: dict[str, Row] = {means: {} for means in CONFIGURATIONS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(program, Path(demo.__file__).parent / "tiny.gguf", folder, "--temp", "0") as server:
            for means, settings in CONFIGURATIONS.items():
                rows[means] = asyncio.run(_trained_model_rates(server.url, count, settings))
        for kind, vocabulary in RANDOM_MODELS.items():
            model = folder / "random.gguf"
            write_random_model(model, vocabulary())
            with running(program, model, folder) as server:
                for means, settings in CONFIGURATIONS.items():
                    rows[means][kind] = asyncio.run(_random_model_rate(server.url, count // 3, settings))
    return rows


async def _trained_model_rates(url: str, count: int, settings: Mapping[str, JSON]) -> Row:
    async with Client(url, **settings) as client:
        commands = await evaluate(client, load_cases([COMMANDS]), sampling=SAMPLING, concurrency=SLOTS)
    odd = await count_right(url, range(count), **settings)
    streamed = await count_right(url, range(count), streamed=True, **settings)
    return {
        COMMANDS_ASKED: rate(sum(each.right for each in commands), len(commands)),
        ODD_VALUES: rate(odd, count),
        ODD_VALUES_STREAMED: rate(streamed, count),
    }


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
