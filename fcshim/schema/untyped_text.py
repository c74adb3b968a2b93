"""Read a value that a tagged format writes without saying its type (`<parameter=k>5</parameter>`) by its schema.

Rule: text is a string wherever only a string fits; else JSON of another kind that fits wins, as in the engines' own
parsers (they try JSON first where the type is not `string`); what fits nothing stays a string. Without a schema, what
is strict JSON of a kind other than string is that value, which is how the models' own templates write it.
Neighbours: `expect` says what fits, `coerce` reads `True`, `CELSIUS` or `5.0` as it does inside JSON.
"""

import json
from typing import TYPE_CHECKING

from fcshim.schema.coerce import MatchResult, match_value
from fcshim.schema.node import Node, scan

if TYPE_CHECKING:
    from fcshim.schema.expect import Expectation

_SPACE = " \t\r\n"


def read_untyped_text(expectation: "Expectation", text: str) -> str:
    """Give strict JSON for `text`; the tags' own line breaks are the caller's to take away."""
    string = json.dumps(text, ensure_ascii=False)
    if expectation.only_strings:
        return string
    bare = text.strip(_SPACE)
    literal = scan(bare)
    if literal is not None and literal.kind != "string" and _fits_unchanged(literal, expectation):
        return literal.text
    as_string = scan(string)
    if as_string is None or expectation.admits("string", as_string.value):
        return string
    return _best_reading(expectation, literal, scan(json.dumps(bare, ensure_ascii=False)), string)


def _best_reading(expectation: "Expectation", literal: Node | None, bare: Node | None, string: str) -> str:
    """Try the bare text as a string, then as JSON, each coerced; prefer what fits."""
    findings: list[tuple[MatchResult, Node]] = [
        (match_value(node, expectation), node) for node in (bare, literal) if node is not None
    ]
    for finding, node in findings:
        if finding.fits:
            return finding.text or node.text
    for finding, _ in findings:
        if finding.text is not None:
            return finding.text
    return string if literal is None or literal.kind == "string" else literal.text


def _fits_unchanged(node: Node, expectation: "Expectation") -> bool:
    finding = match_value(node, expectation)
    return finding.fits and finding.text is None
