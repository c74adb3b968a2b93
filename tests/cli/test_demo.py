"""`fcshim demo`: its arguments and its exit code. `tests/demo/test_run.py` tests the output."""

from tests.cli.command import fcshim


def test_the_demo_succeeds_with_the_embedded_runtime():
    outcome = fcshim("demo", "--engine", "numpy")

    assert (0, "") == (outcome.code, outcome.err)
    assert "tool_use" in outcome.out


def test_a_missing_engine_is_named(tmp_path):
    outcome = fcshim("demo", "--engine", "llama-server", env={"PATH": str(tmp_path)})

    assert 2 == outcome.code
    assert "llama-server" in outcome.err
