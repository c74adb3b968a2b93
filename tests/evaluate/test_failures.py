"""The text about failed cases."""

from fcshim.evaluate import ActualCall, load_cases
from fcshim.evaluate.failures import describe_failures
from tests.evaluate.results import result

CASES = load_cases(["simple", "no_tool_fits"])


def failure_lines(*results):
    return list(describe_failures(results, CASES))


def test_a_right_result_has_no_lines():
    assert [] == failure_lines(result("simple-001"))


def test_a_failure_shows_the_expected_and_the_actual_calls():
    made = ActualCall("get_air_quality", {"city": "Krakau", "unit": True})

    assert [
        "simple-004 in hermes: wrong arguments",
        "  asked     How good is the air in Kraków at the moment?",
        '  expected  get_air_quality(city="Kraków" or "Krakow")',
        '  got       get_air_quality(city="Krakau", unit=true)',
        "  said      Let me see.",
    ] == failure_lines(result("simple-004", "wrong_arguments", calls=(made,), text="Let me\n see."))


def test_the_absence_of_calls_is_shown_as_no_call():
    missing = failure_lines(result("simple-001", "missing_call", calls=()))
    needless = failure_lines(result("none-001", "called_though_none_fits"))

    assert "  got       no call" == missing[3]
    assert "  expected  no call" == needless[2]


def test_an_error_and_an_unusable_call_are_shown():
    failed = failure_lines(result("simple-001", "error", calls=(), problem="the model fell over"))
    cut = failure_lines(
        result("simple-001", "malformed", calls=(ActualCall("get_current_weather", '{"city": "L', "truncated"),))
    )

    assert "  got       the model fell over" == failed[3]
    assert '  got       get_current_weather, truncated: {"city": "L' == cut[3]


def test_long_texts_are_truncated():
    *_, said = failure_lines(result("simple-001", "missing_call", calls=(), text="word " * 1000))

    assert len(said) < 320
    assert said.endswith("…")
