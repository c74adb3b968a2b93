"""Descriptions from docstrings."""

import functools

import pytest

from fcshim.tools.docstring import DocstringParts, parse_docstring

GOOGLE = """Look up the weather.

    Worldwide.

    Args:
        city: The city's
            English name.
        days (int, optional): How many days.

    Returns:
        str: What to expect.

    Raises:
        ValueError: Never.
    """

NUMPY = """Look up the weather.

    Worldwide.

    Parameters
    ----------
    city : str
        The city's
        English name.
    days : int, optional
        How many days.

    Returns
    -------
    str
        What to expect.
    """

SPHINX = """Look up the weather.

    Worldwide.

    :param city: The city's
        English name.
    :param int days: How many days.
    :returns: What to expect.
    :raises ValueError: Never.
    """


def function_with(docstring):
    def weather(city, days):
        pass

    weather.__doc__ = docstring
    return weather


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_the_three_styles_have_the_same_result(docstring):
    expected = DocstringParts(
        summary="Look up the weather.\n\nWorldwide.",
        parameters={"city": "The city's English name.", "days": "How many days."},
    )

    assert expected == parse_docstring(function_with(docstring))


def test_numpy_style_may_describe_several_parameters_at_once():
    docstring = "Add.\n\nParameters\n----------\nx, y : float\n    A summand.\n"

    assert {"x": "A summand.", "y": "A summand."} == parse_docstring(function_with(docstring)).parameters


@pytest.mark.parametrize("docstring", ["Just say: hello.", ":param broken", "Args: none, really"])
def test_a_docstring_in_no_style_is_all_description(docstring):
    assert DocstringParts(summary=docstring, parameters={}) == parse_docstring(function_with(docstring))


def test_without_a_docstring_there_is_no_description():
    assert DocstringParts(summary="", parameters={}) == parse_docstring(function_with(None))


def test_a_partial_function_is_described_by_the_function_inside():
    assert "Just this." == parse_docstring(functools.partial(function_with("Just this."), "Paris")).summary
