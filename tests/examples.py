"""How many examples of a property are tried."""

from hypothesis import settings

IN_MAKE_TEST = 30
"""The examples of the profile "repeatable" in conftest.py."""


def examples(count: int) -> settings:
    """Try `count` examples in `make test`; another profile tries more in proportion, as `make fuzz` does.

    For properties that are checked in every dialect, or that are slow.
    """
    return settings(deadline=None, max_examples=max(1, count * settings.default.max_examples // IN_MAKE_TEST))
