"""Scores, ranking and elimination of candidates, as functions of their outcomes."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.evaluate.standings import (
    Outcome,
    Standing,
    count_cases_left,
    describe,
    eliminate,
    find_winner,
    rank,
    report_on,
    round_sizes,
    score,
    sign_test,
)

RIGHT_CALL, WRONG_CALL, NO_CALL = (
    Outcome("right", True, True),
    Outcome("wrong_arguments", True, True),
    Outcome("missing_call", True, False),
)
RIGHT_TEXT, NEEDLESS_CALL = Outcome("right", False, False), Outcome("called_though_none_fits", False, True)
LETTERS = {"C": RIGHT_CALL, "w": WRONG_CALL, "m": NO_CALL, "T": RIGHT_TEXT, "n": NEEDLESS_CALL}


def standing(name: str, letters: str = "", **fields) -> Standing:
    """Return a standing; the letters are its outcomes, capitals are right."""
    outcomes = tuple(LETTERS[letter] for letter in letters)
    return Standing(name=name, settings={"dialect": name}, outcomes=outcomes, **fields)


PROBES = st.sampled_from([None, "written", "other", "unclear"])


@st.composite
def fields_of_standings(draw):
    """Draw candidates that have run the same cases, as after a round."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=12))
    count = draw(st.integers(1, 8))
    return [
        Standing(
            name=f"c{number}",
            settings={},
            prompt_tokens=draw(st.integers(0, 500)),
            probe=draw(PROBES),
            outcomes=tuple(
                draw(st.sampled_from([RIGHT_CALL, WRONG_CALL, NO_CALL] if kind else [RIGHT_TEXT, NEEDLESS_CALL]))
                for kind in kinds
            ),
        )
        for number in range(count)
    ]


@given(fields_of_standings())
def test_the_leader_is_never_eliminated(field):
    assert rank(field)[0].name not in eliminate(field)


@given(fields_of_standings())
def test_at_most_the_better_half_goes_on_or_two(field):
    left = [each for each in field if each.name not in eliminate(field)]

    assert 1 <= len(left) <= max(2, math.ceil(len(field) / 2))
    assert set(eliminate(field)) <= {each.name for each in field}


@given(fields_of_standings(), st.integers(1, 12))
def test_the_leader_wins_after_each_round_whatever_was_dropped(field, first_round):
    reasons = eliminate(field)
    after = [
        Standing(**{name: getattr(each, name) for name in each.__struct_fields__} | {"dropped": reasons[each.name]})
        if each.name in reasons
        else each
        for each in field
    ]
    winner = find_winner(after, first_round)

    assert (rank(field)[0] if any(each.has_right_call for each in field) else None) == winner


@given(fields_of_standings())
def test_a_candidate_without_a_right_call_never_ranks_before_one_with_a_right_call(field):
    with_calls = [each.has_right_call for each in rank(field)]

    assert sorted(with_calls, reverse=True) == with_calls


@given(st.lists(st.sampled_from(list(LETTERS.values())), max_size=20))
def test_a_score_is_a_share_and_ignores_how_many_cases_of_each_kind_there_are(outcomes):
    assert 0 <= score(outcomes) <= 1
    assert score(outcomes) == pytest.approx(score(outcomes * 3))


def test_the_score_is_the_mean_of_both_accuracies():
    assert 0.625 == score([*[LETTERS[letter] for letter in "CmmmTT"]])
    assert 0.25 == score([*[LETTERS[letter] for letter in "Cmmm"]])
    assert 0.0 == score([])


def test_of_equal_candidates_the_shorter_prompt_wins():
    long, short, unknown = (
        standing("long", "CT", prompt_tokens=400),
        standing("short", "CT", prompt_tokens=300),
        standing("unknown", "CT"),
    )

    assert ["short", "long", "unknown"] == [each.name for each in rank([unknown, long, short])]


def test_candidates_are_ranked_by_the_cases_that_all_have_run():
    ahead, behind = standing("ahead", "CTCT" + "mnmn"), standing("behind", "CTmT")

    assert "ahead" == rank([behind, ahead])[0].name


def test_candidates_that_have_not_finished_the_first_round_win_only_if_none_has():
    finished, begun = standing("finished", "CTmn"), standing("begun", "CT")

    assert "finished" == find_winner([begun, finished], 4).name
    assert "begun" == find_winner([begun, standing("other", "m")], 4).name
    assert find_winner([standing("none")], 4) is None
    assert find_winner([standing("silent", "mTmT")], 4) is None
    assert find_winner([standing("gone", "CTCT", dropped="it failed")], 4) is None


@pytest.mark.parametrize(
    ("leader", "other", "reason"),
    [
        (standing("a", "CTmn"), standing("b", "mTmT"), "it made no call"),
        (
            standing("a", "CTCT", probe="written"),
            standing("b", "CTmT", probe="other"),
            "the model does not write this form when it is shown it",
        ),
        (standing("a", "CTCT"), standing("b", "CTmT", probe="other"), None),
        (
            standing("a", "CTCTCTCT"),
            standing("b", "wnwnCTCT"),
            "a was better in 4 of the 4 cases in which they differ",
        ),
        (standing("a", "CTCTCTCT"), standing("b", "wnwTCTCT"), None),
    ],
)
def test_a_candidate_is_dropped_for_a_reason(leader, other, reason):
    assert ({"b": reason} if reason else {}) == eliminate([leader, other])


def test_the_better_half_goes_on_in_the_order_of_the_table_where_nothing_else_decides():
    field = [standing(name, "CTmn") for name in "abcdef"]

    assert set("def") == set(eliminate(field))
    assert set("c") == set(eliminate(field[:3]))
    assert {} == eliminate(field[:2])
    assert {} == eliminate([])


@pytest.mark.parametrize(("better", "worse", "expected"), [(0, 0, 1.0), (1, 0, 0.5), (4, 0, 0.0625), (3, 1, 0.3125)])
def test_the_sign_test_is_one_sided_and_exact(better, worse, expected):
    assert expected == sign_test(better, worse)


@given(st.integers(1, 40), st.integers(1, 200))
def test_rounds_double_up_to_all_cases(first_round, total):
    sizes = round_sizes(first_round, total)

    assert sorted(set(sizes)) == sizes
    assert total == sizes[-1]
    assert all(after <= 2 * before for before, after in itertools.pairwise(sizes))


@pytest.mark.parametrize(
    ("done", "sizes", "expected"),
    [
        ([0, 0, 0, 0], [4, 8, 16], 4 * 4 + 2 * 4 + 2 * 8),
        ([4, 2, 0], [4, 8], 6 + 2 * 4),
        ([4, 4], [8], 8),
        ([4], [8, 16], 4),
        ([], [4], 0),
    ],
)
def test_the_cases_that_are_left_are_counted_as_if_each_round_halves_the_candidates(done, sizes, expected):
    field = [standing(str(number), "C" * count) for number, count in enumerate(done)]

    assert expected == count_cases_left(field, sizes)


def test_a_standing_is_described_in_one_phrase():
    told = describe(report_on(standing("a", "CTmnm", prompt_tokens=321)))

    assert (
        "2 of 5 right (calls 1 of 3, no call 1 of 2), 321 tokens a prompt; 2 missing call, 1 called though none fits"
    ) == told
    assert "not tried" == describe(report_on(standing("a")))
    assert "1 of 1 right (calls 1 of 1)" == describe(report_on(standing("a", "C")))
