"""Tools with more regular expressions than a grammar can be made of in time."""

import pytest

from fcshim.constrain import rules, scalars
from fcshim.constrain.constraint import constraint_for
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.dialects import get_dialect

pytestmark = pytest.mark.security


def tool(count):
    patterns = {f"p{at}": {"type": "string", "pattern": f"^[a-z]{{1,9}}-[0-9]+{at}$"} for at in range(count)}
    return Tool("f", parameters={"type": "object", "properties": patterns, "required": list(patterns)})


def constraint(count):
    request = Request(model="m", messages=(), tool_choice=ToolChoice("required"))
    return constraint_for("gbnf", get_dialect("hermes"), (tool(count),), request, eager=True, lazy=False)


def test_patterns_beyond_the_limit_admit_any_string(monkeypatch):
    monkeypatch.setattr(rules, "_MAX_PATTERN_CHARACTERS", 200)
    read = []
    monkeypatch.setattr(scalars, "read_pattern", read.append)
    made = constraint(30)

    assert 5 < len(read) < 12
    assert any("pattern is not enforced" in note for note in made.notes)


def test_a_hundred_patterns_are_enforced():
    assert not any("pattern" in note for note in constraint(100).notes)
