"""Thought signatures are sent as base64 and returned as they were."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.gemini.parts import unwrap_signature, wrap_signature


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_signature_survives_the_round_trip(signature):
    wrapped = wrap_signature(signature)

    assert signature == unwrap_signature(wrapped)
    assert base64.b64decode(wrapped.replace("-", "+").replace("_", "/"), validate=True) is not None


@pytest.mark.parametrize("signature", ["not base64", "a:b", "é"])
def test_the_url_safe_alphabet_is_read(signature):
    wrapped = base64.urlsafe_b64encode(base64.b64decode(wrap_signature(signature))).decode()

    assert signature == unwrap_signature(wrapped)


def test_the_providers_own_signature_is_unchanged():
    assert "c2lnbmF0dXJl" == wrap_signature("c2lnbmF0dXJl") == unwrap_signature("c2lnbmF0dXJl")
