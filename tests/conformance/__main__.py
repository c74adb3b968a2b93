"""Prints the tables of docs/comparison.md: `python -m tests.conformance`. Each installed peer has a column.

The last table has the suites of others that are installed (`python -m tests.conformance.environment`).

Rule: a verdict is measured, never written by hand.
"""

from fcshim.testing.conformance import judge, load
from tests.conformance.environment import MCP
from tests.conformance.mcp_suite import conformance
from tests.conformance.readers import installed
from tests.conformance.suites import SUITES
from tests.conformance.table import suite_table, table


def main() -> None:
    """Read every case with every reader, and print the tables."""
    cases = load()
    columns = {name: list(map(judge, cases, read(cases))) for name, read in installed().items()}
    for origin in ("shims", "engines"):
        chosen = [at for at, case in enumerate(cases) if case.origin == origin]
        part = {name: [verdicts[at] for at in chosen] for name, verdicts in columns.items()}
        print(table(part, [cases[at] for at in chosen]), end="\n\n")
    suites = {**SUITES, "MCP conformance": (MCP, conformance)}
    print(suite_table({name: read() for name, (file, read) in suites.items() if file.exists()}))


if __name__ == "__main__":
    main()
