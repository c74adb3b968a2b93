"""What went wrong, for people."""

from fcshim.evaluate import Call, load_cases
from fcshim.evaluate.misses import describe_misses
from tests.evaluate.results import result

CASES = load_cases(["simple", "no_tool_fits"])


def told(*results):
    return list(describe_misses(results, CASES))


def test_what_is_right_is_not_told():
    assert [] == told(result("simple-001"))


def test_a_miss_is_told_beside_what_was_expected():
    made = Call("get_air_quality", {"city": "Krakau", "unit": True})

    assert [
        "simple-004 in hermes: wrong arguments",
        "  asked     How good is the air in Kraków at the moment?",
        '  expected  get_air_quality(city="Kraków" or "Krakow")',
        '  got       get_air_quality(city="Krakau", unit=true)',
        "  said      Let me see.",
    ] == told(result("simple-004", "wrong_arguments", calls=(made,), text="Let me\n see."))


def test_no_call_is_a_word_of_its_own():
    missing = told(result("simple-001", "missing_call", calls=()))
    needless = told(result("none-001", "called_though_none_fits"))

    assert "  got       no call" == missing[3]
    assert "  expected  no call" == needless[2]


def test_an_error_and_a_call_that_cannot_be_used_say_what_came():
    failed = told(result("simple-001", "error", calls=(), problem="the model fell over"))
    cut = told(result("simple-001", "malformed", calls=(Call("get_current_weather", '{"city": "L', "truncated"),)))

    assert "  got       the model fell over" == failed[3]
    assert '  got       get_current_weather, truncated: {"city": "L' == cut[3]


def test_long_texts_are_clipped():
    *_, said = told(result("simple-001", "missing_call", calls=(), text="word " * 1000))

    assert len(said) < 320
    assert said.endswith("…")
