"""A fast pattern matches the usual text between two values completely, as an incomplete beginning, or not at all."""

import re

import pytest

from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS, SPACE, value_pattern

NEXT = re.compile(f"{SPACE},{SPACE}" + value_pattern(("true", "None"), value_starts=r'"\[{', after_atom=r",\]}"))


@pytest.mark.parametrize("atom", ["0", "-12", "1.50", "true", "None", "1234567890123456"])
def test_an_atom_matches_once_it_has_ended(atom: str) -> None:
    found = NEXT.match(f", {atom}]")

    assert found is not None
    assert ("atom", atom) == (found.lastgroup, found["atom"])


@pytest.mark.parametrize("value", ['"x', "[", "{}"])
def test_any_other_value_matches_at_its_first_character(value: str) -> None:
    found = NEXT.match(f" ,\n{value}")

    assert found is not None
    assert ("value", 3) == (found.lastgroup, found.end())


@pytest.mark.parametrize("begun", [",", ", ", ", -", ", 12", ", 1.", ", 1e5", ", tru", ", None"])
def test_an_incomplete_beginning_matches_up_to_the_end(begun: str) -> None:
    found = NEXT.match(begun)

    assert found is not None
    assert found.lastgroup not in COMPLETE_GROUPS
    assert len(begun) == found.end()


@pytest.mark.parametrize(
    "unusual", ["", " ", "; 1", ", x", ", 1e5,", ", 007,", ", +1,", ", trueish,", ",]", ", \u0663,"]
)
def test_unusual_text_does_not_match(unusual: str) -> None:
    assert NEXT.match(unusual) is None
