"""Convert the untyped text of a tagged format (`<parameter=k>5</parameter>`) to JSON, by the schema of the parameter.

Rule: where only a string fits, the text is a string; else fitting JSON of another kind wins, as in the engines' own
parsers (they try JSON first where the type is not `string`); text that fits nothing stays a string. Without a schema,
strict JSON other than a string is read as such, because the models' own templates write it so.
"""

import json

from fcshim.schema.coerce import MatchResult, match_value
from fcshim.schema.expect import Expectation
from fcshim.schema.limits import StepLimit
from fcshim.schema.node import Node, scan

_SPACE = " \t\r\n"


def read_untyped_text(expectation: Expectation, text: str, steps: StepLimit | None = None) -> str:
    """Return strict JSON for `text`, from which the caller has removed the tags' own line breaks.

    The work takes of `steps`; where none are left, the text is read as if the schema did not admit it.
    """
    string = json.dumps(text, ensure_ascii=False)
    if expectation.only_strings:
        return string
    bare = text.strip(_SPACE)
    literal = scan(bare)
    if literal is not None and literal.kind != "string":
        result = match_value(literal, expectation, steps)
        if result.fits and result.text is None:
            return literal.text
    as_string = scan(string)
    if as_string is None or expectation.admits("string", as_string.value):
        return string
    return _best_reading(expectation, literal, scan(json.dumps(bare, ensure_ascii=False)), string, steps)


def _best_reading(
    expectation: Expectation, literal: Node | None, bare: Node | None, string: str, steps: StepLimit | None
) -> str:
    """Coerce the stripped text as a string, then as JSON; prefer a result that fits."""
    results: list[tuple[MatchResult, Node]] = [
        (match_value(node, expectation, steps), node) for node in (bare, literal) if node is not None
    ]
    for result, node in results:
        if result.fits:
            return result.text or node.text
    for result, _ in results:
        if result.text is not None:
            return result.text
    return string if literal is None or literal.kind == "string" else literal.text
