"""Measures how well a model calls tools: cases with known answers, run through `fcshim.Client`.

Rule: the text of a reply is never judged. A case expects calls, or none, and names and arguments are compared exactly.
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
