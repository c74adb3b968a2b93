"""Results for the tests of this folder, made up."""

from fcshim.evaluate import ActualCall, Result


def result(case="simple-001", verdict="right", **fields):
    """Make a result."""
    given = {"dialect": "hermes", "category": case.rpartition("-")[0], "calls": (ActualCall("timer", {"minutes": 5}),)}
    return Result(id=case, verdict=verdict, **{**given, **fields})
