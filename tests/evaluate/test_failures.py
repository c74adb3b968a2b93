"""What went wrong, for people."""

from fcshim.evaluate import ActualCall, load_cases
from fcshim.evaluate.failures import describe_failures
from tests.evaluate.results import result

CASES = load_cases(["simple", "no_tool_fits"])


def failure_lines(*results):
    return list(describe_failures(results, CASES))


def test_what_is_right_is_not_told():
    assert [] == failure_lines(result("simple-001"))


def test_a_miss_is_told_beside_what_was_expected():
    made = ActualCall("get_air_quality", {"city": "Krakau", "unit": True})

    assert [
        "simple-004 in hermes: wrong arguments",
        "  asked     How good is the air in Kraków at the moment?",
        '  expected  get_air_quality(city="Kraków" or "Krakow")',
        '  got       get_air_quality(city="Krakau", unit=true)',
        "  said      Let me see.",
    ] == failure_lines(result("simple-004", "wrong_arguments", calls=(made,), text="Let me\n see."))


def test_no_call_is_a_word_of_its_own():
    missing = failure_lines(result("simple-001", "missing_call", calls=()))
    needless = failure_lines(result("none-001", "called_though_none_fits"))

    assert "  got       no call" == missing[3]
    assert "  expected  no call" == needless[2]


def test_an_error_and_a_call_that_cannot_be_used_say_what_came():
    failed = failure_lines(result("simple-001", "error", calls=(), problem="the model fell over"))
    cut = failure_lines(
        result("simple-001", "malformed", calls=(ActualCall("get_current_weather", '{"city": "L', "truncated"),))
    )

    assert "  got       the model fell over" == failed[3]
    assert '  got       get_current_weather, truncated: {"city": "L' == cut[3]


def test_long_texts_are_clipped():
    *_, said = failure_lines(result("simple-001", "missing_call", calls=(), text="word " * 1000))

    assert len(said) < 320
    assert said.endswith("…")
