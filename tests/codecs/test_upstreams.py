"""Tool names that each API accepts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.upstreams import UPSTREAMS

PATTERNS = {
    "openai": r"[A-Za-z0-9_-]{1,64}",
    "llamacpp": r"[A-Za-z0-9_-]{1,64}",
    "responses": r"[A-Za-z0-9_-]{1,64}",
    "anthropic": r"[A-Za-z0-9_-]{1,128}",
    "gemini": r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}",
    "ollama": r"[\w.:/-]{1,128}",
}


@pytest.mark.parametrize("kind", UPSTREAMS)
@given(name=st.text(min_size=1, max_size=200))
def test_every_sanitized_name_is_valid(kind, name):
    sanitized = UPSTREAMS[kind].name_rules.sanitize(name)

    assert re.fullmatch(PATTERNS[kind], sanitized)
    assert sanitized == UPSTREAMS[kind].name_rules.sanitize(sanitized)
    assert sanitized == name or not re.fullmatch(PATTERNS[kind], name)


@pytest.mark.parametrize("kind", UPSTREAMS)
def test_different_names_stay_different(kind):
    names = ["a b", "a  b", "a_b", "a€b", "a" * 300, "a" * 299, "1 x", "f_1 x", "ä", "ö", ".", "-"]

    assert len(names) == len({UPSTREAMS[kind].name_rules.sanitize(name) for name in names})


def test_a_sanitized_name_is_readable():
    assert re.fullmatch("math_mul_[0-9a-f]{8}", UPSTREAMS["openai"].name_rules.sanitize("math.mul"))
