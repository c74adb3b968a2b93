"""What is said of a mistake in the arguments: one line, and what was meant."""

import pytest

from tests.cli.command import fcshim


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("serve", "--prot", "1"), "--port"),
        (("eval", "--dialects=hermes"), "--dialect"),
        (("pars",), "parse"),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest_right_one(arguments, nearest):
    assert f"did you mean {nearest}?" in fcshim(*arguments).err


def test_a_name_like_no_other_is_told_alone():
    assert "did you mean" not in fcshim("serve", "--zzzzz").err


def test_what_is_missing_is_told_in_one_line_with_where_to_read_on():
    outcome = fcshim("doctor")

    expected = "fcshim doctor: the following arguments are required: URL (fcshim doctor --help says what it takes)\n"
    assert (2, "", expected) == (outcome.code, outcome.out, outcome.err)
