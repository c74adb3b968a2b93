"""`fcshim demo`: its arguments and its exit code; the show itself has its own tests."""

from tests.cli.command import fcshim


def test_the_demonstration_succeeds_with_nothing_but_the_package():
    outcome = fcshim("demo", "--engine", "numpy")

    assert (0, "") == (outcome.code, outcome.err)
    assert "tool_use" in outcome.out


def test_an_engine_that_is_missing_is_named(tmp_path):
    outcome = fcshim("demo", "--engine", "llama-server", env={"PATH": str(tmp_path)})

    assert 2 == outcome.code
    assert "llama-server" in outcome.err
