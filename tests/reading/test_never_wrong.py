"""Law 10: a call that is delivered without an error says what the model meant, whatever mistake it makes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.dialects import DIALECTS
from fcshim.testing.mutations.seeds import make_seed
from fcshim.testing.mutations.table import MUTATIONS, Mutation
from fcshim.testing.mutations.verdict import can_be_seen, cuts, judge_mutant, read

MUST_BE_EXACT = frozenset({"no mistake", "prose before", "end marker doubled"})
"""Mistakes that cost no call in any dialect."""


@pytest.mark.parametrize("mutation", MUTATIONS)
@given(number=st.integers(0, 2**32), dialect=st.sampled_from(list(DIALECTS.values())))
def test_a_delivered_call_is_one_that_was_meant(mutation, number, dialect):
    rng = random.Random(number)
    seed = make_seed(rng)
    mutate: Mutation = MUTATIONS[mutation]
    mutant = mutate(seed, dialect, rng)
    if mutant is None or not can_be_seen(seed.tools, dialect, mutant):
        return
    results = [read(seed.tools, dialect, mutant, pieces) for pieces in cuts(mutant.text, rng)]
    verdict = judge_mutant(results[0], mutant, dialect)

    assert verdict != "wrong", (mutant, results[0])
    assert all(result == results[0] for result in results), mutant
    assert verdict == "exact" or mutation not in MUST_BE_EXACT, (mutant, results[0])
