import pytest

from fcshim.demo import evaluate
from fcshim.demo.evaluate import Score, main


def test_new_commands_are_copied_exactly_through_fcshim(capsys: pytest.CaptureFixture[str]) -> None:
    """A short run of the evaluation, with 20 commands instead of 200."""
    code = main(["--engine", "numpy", "--count", "20"])
    report = capsys.readouterr().out

    assert code == 0
    assert [line.split("  ")[0] for line in report.splitlines()] == [
        "one call",
        "two calls",
        "answer after a result",
        "plain echo",
    ]


def test_a_share_below_the_limit_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evaluate, "PASS_SHARE", 1.1)

    assert main(["--engine", "numpy", "--count", "1"]) == 1
    assert "1 of 1" in capsys.readouterr().out


def test_an_unreachable_upstream_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--upstream", "http://127.0.0.1:9", "--count", "1"]) == 2
    assert "the proxy answered 502" in capsys.readouterr().err


def test_a_score_counts_and_keeps_the_first_failures() -> None:
    score = Score()
    for expected, got in [(1, 1), (2, 0), (3, 0), (4, 0), (5, 0)]:
        score.add(expected, got)

    assert (score.tried, score.exact, score.share) == (5, 1, 0.2)
    assert score.failures == [(2, 0), (3, 0), (4, 0)]
    assert Score().share == 0.0
