"""A mistake in the arguments is reported in one line, with a suggestion."""

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
def test_an_unknown_name_is_reported_with_the_most_similar_known_one(arguments, nearest):
    assert f"did you mean {nearest}?" in fcshim(*arguments).err


def test_a_name_without_a_similar_one_gets_no_suggestion():
    assert "did you mean" not in fcshim("serve", "--zzzzz").err


def test_a_missing_argument_is_reported_in_one_line_that_names_the_help():
    outcome = fcshim("doctor")

    expected = "fcshim doctor: the following arguments are required: URL (see fcshim doctor --help)\n"
    assert (2, "", expected) == (outcome.code, outcome.out, outcome.err)
