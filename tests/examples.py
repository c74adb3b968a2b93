"""How many examples of a property are tried, and a strategy that several properties share."""

import string

from hypothesis import settings
from hypothesis import strategies as st

IN_MAKE_TEST = 20
"""The examples of the profile "repeatable" in conftest.py."""


def examples(count: int) -> settings:
    """Try `count` examples in `make test`; another profile tries more in proportion, as `make fuzz` does.

    For properties that are checked in every dialect, or that are slow.
    """
    return settings(deadline=None, max_examples=max(1, count * settings.default.max_examples // IN_MAKE_TEST))


_FIRST = string.ascii_letters + "_"


def identifiers(longest: int, *, also: str = "-") -> st.SearchStrategy[str]:
    """Give names of tools and parameters; `also` are characters that they may contain after the first.

    A draw from `st.from_regex` costs twice as much, and names are most of what these tests draw.
    """
    letters = st.text(_FIRST + string.digits + also, min_size=1, max_size=longest)
    return letters.filter(lambda name: name[0] in _FIRST)
