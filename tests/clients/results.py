"""Writes the table of docs/agents.md from what `make test-clients` found.

Rule: the table holds only what ran. A failed or skipped client ends the program, and the page stays as it is.
"""

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.clients.environments import CACHE, ROOT

REPORT = CACHE / "report.xml"
PAGE = ROOT / "docs" / "agents.md"
BEGIN, END = "<!-- written by make clients-table -->\n", "<!-- end -->"
_APIS = {
    "openai_chat": "Chat Completions",
    "openai_responses": "Responses",
    "anthropic": "Messages",
    "gemini": "Gemini",
    "ollama": "Ollama",
}


def main() -> None:
    """Write the table."""
    cases = list(read_cases(REPORT))
    if problems := [f"{case.get('name')}: {kind}" for case, kind in unpassed(cases)]:
        sys.exit("\n".join(["the table is written only if every client passes", *problems]))
    PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8"), table(cases)), encoding="utf-8")


def read_cases(report: Path) -> Iterable[ET.Element]:
    """Return the tests of a JUnit report that name their client."""
    for case in ET.parse(report).iter("testcase"):
        if any(each.get("name") == "client" for each in case.iter("property")) or case.find("skipped") is not None:
            yield case


def unpassed(cases: Iterable[ET.Element]) -> Iterable[tuple[ET.Element, str]]:
    """Return the tests that did not pass, each with its outcome."""
    for case in cases:
        for child in case:
            if child.tag in {"failure", "error", "skipped"}:
                yield case, child.tag


def table(cases: Iterable[ET.Element]) -> str:
    """Make one row for each client and API, with the dialects in which it passed."""
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for case in cases:
        values = {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}
        key = (values["client"].replace("_", " "), values["version"], _APIS[values["api"]])
        if values["dialect"] not in rows[key]:
            rows[key].append(values["dialect"])
    lines = [_row(["client", "version", "API", "dialects"]), _row(["---"] * 4)]
    return "".join([*lines, *(_row([*key, ", ".join(f"`{name}`" for name in rows[key])]) for key in rows)])


def replace_table(page: str, content: str) -> str:
    """Put a table between the marks of the page."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.partition(END)[2]}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
