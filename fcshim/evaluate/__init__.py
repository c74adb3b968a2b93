"""How well a model calls: cases with known answers, asked through `fcshim.Client`, scored by equality of arguments.

Rule: nothing here judges a text; a case asks for calls, or for none, and either is what comes or it is not.
Neighbours: `cli.eval` is the command; `client` asks; `doctor` examines the endpoint as well.
"""

from fcshim.evaluate.case import Case, ExpectedCall
from fcshim.evaluate.result import ActualCall, Result, Verdict
from fcshim.evaluate.runner import DEFAULT_SAMPLING, evaluate
from fcshim.evaluate.scoring import judge
from fcshim.evaluate.suite import CATEGORIES, DEFAULT_CATEGORIES, load_cases

__all__ = [
    "CATEGORIES",
    "DEFAULT_CATEGORIES",
    "DEFAULT_SAMPLING",
    "ActualCall",
    "Case",
    "ExpectedCall",
    "Result",
    "Verdict",
    "evaluate",
    "judge",
    "load_cases",
]
