"""Results for the tests of this folder, made up."""

from fcshim.evaluate import Call, Result


def result(case="simple-001", verdict="right", **fields):
    """Make a result."""
    given = {"dialect": "hermes", "category": case.rpartition("-")[0], "calls": (Call("timer", {"minutes": 5}),)}
    return Result(id=case, verdict=verdict, **{**given, **fields})
