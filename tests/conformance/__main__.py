"""Prints the tables of docs/comparison.md: `python -m tests.conformance`. Each installed peer has a column.

Rule: a verdict is measured, never written by hand.
"""

from fcshim.testing.conformance import judge, load
from tests.conformance.readers import installed
from tests.conformance.table import table


def main() -> None:
    """Read every case with every reader, and print the two tables."""
    cases = load()
    columns = {name: list(map(judge, cases, read(cases))) for name, read in installed().items()}
    for origin in ("shims", "engines"):
        chosen = [at for at, case in enumerate(cases) if case.origin == origin]
        part = {name: [verdicts[at] for at in chosen] for name, verdicts in columns.items()}
        print(table(part, [cases[at] for at in chosen]), end="\n\n")


if __name__ == "__main__":
    main()
