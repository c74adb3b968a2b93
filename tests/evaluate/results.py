"""Makes results for the tests of this folder."""

from fcshim.evaluate import ActualCall, Result


def result(case="simple-001", verdict="right", **fields):
    """Return a result of one call."""
    given = {"dialect": "hermes", "category": case.rpartition("-")[0], "calls": (ActualCall("timer", {"minutes": 5}),)}
    return Result(id=case, verdict=verdict, **{**given, **fields})
