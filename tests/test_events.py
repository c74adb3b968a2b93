"""Ids: unique, and unguessable where they must be."""

from fcshim.events import id_source, secret_source


def test_ids_of_one_source_are_unique_and_have_its_prefix():
    new_id = id_source("toolu_")
    ids = [new_id() for _ in range(1000)]

    assert 1000 == len(set(ids))
    assert all(made.startswith("toolu_") for made in ids)


def test_two_sources_share_no_id():
    first, second = id_source(), id_source()

    assert not {first() for _ in range(100)} & {second() for _ in range(100)}


def test_a_secret_id_is_not_derived_from_another():
    new_id = secret_source("resp_")
    first, second = new_id().removeprefix("resp_"), new_id().removeprefix("resp_")

    assert 32 == len(first) == len(second)
    assert first[:8] != second[:8]
