"""A server's failure in one line."""

import pytest
from mcp import MCPError

from fcshim.mcp.link import describe_error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "No such file", "npx"), "'npx' was not found"),
        (PermissionError(13, "Permission denied", "/a"), "no permission to run /a"),
        (TimeoutError(), "it timed out"),
        (MCPError(-1, "no"), "no"),
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ExceptionGroup("many", [ExceptionGroup("more", [OSError("x")])]), "OSError: x"),
    ],
)
def test_the_root_cause_is_described(error, expected):
    assert expected == describe_error(error)


def test_the_programs_output_is_quoted():
    assert "no; it wrote: a key is missing" == describe_error(MCPError(-1, "no"), "it wrote: a key is missing")


def test_a_long_cause_is_cut():
    assert 1202 >= len(describe_error(ValueError("x" * 10_000), "y" * 10_000))
