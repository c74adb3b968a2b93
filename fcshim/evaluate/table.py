"""A summary as a table for the terminal: a row per category, a column per dialect.

Every rate has its interval; counts of verdicts and costs are in sections below the rates.
"""

from collections.abc import Callable, Sequence

from rich.table import Table

from fcshim.evaluate.summary import Rate, Summary


def make_table(summaries: Sequence[Summary]) -> Table:
    """Return a table with a column for each summary."""
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("category")
    for summary in summaries:
        table.add_column(summary.dialect, justify="right")
    for category in dict.fromkeys(name for summary in summaries for name in summary.categories):
        table.add_row(category, *(_format_rate(summary.categories.get(category)) for summary in summaries))
    table.add_section()
    table.add_row("all", *(_format_rate(summary.total) for summary in summaries))
    table.add_section()
    for verdict in dict.fromkeys(name for summary in summaries for name in summary.verdicts if name != "right"):
        table.add_row(verdict.replace("_", " "), *(str(summary.verdicts.get(verdict, 0)) for summary in summaries))
    table.add_section()
    for name, cost in _COSTS.items():
        table.add_row(name, *map(cost, summaries))
    return table


_COSTS: dict[str, Callable[[Summary], str]] = {
    "tokens of a prompt": lambda summary: f"{summary.input_tokens:.0f}",
    "tokens of a reply": lambda summary: f"{summary.output_tokens:.0f}",
    "seconds, median": lambda summary: f"{summary.seconds:.2f}",
}


def _format_rate(rate: Rate | None) -> str:
    if rate is None:
        return ""
    return f"{rate.right} of {rate.tried}  {rate.share:4.0%} ({100 * rate.low:.0f} to {100 * rate.high:.0f})"
