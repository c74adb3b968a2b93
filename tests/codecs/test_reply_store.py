import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.reply_store import ReplyStore


def test_a_document_is_found_by_name_and_its_aliases_give_the_name():
    store = ReplyStore()
    store.put("a", b"1", ["x", "y"])

    assert b"1" == store.get("a")
    assert "a" == store.resolve_alias("y")
    assert store.get("x") is None


def test_the_least_recently_used_document_is_dropped_first():
    store = ReplyStore(max_entries=2)
    store.put("a", b"1", ["x"])
    store.put("b", b"2")
    store.get("a")
    store.put("c", b"3")

    assert [b"1", None, b"3"] == [store.get(name) for name in "abc"]


def test_deleting_a_document_deletes_its_aliases():
    store = ReplyStore()
    store.put("a", b"1", ["x"])

    assert [True, False] == [store.delete("a"), store.delete("a")]
    assert store.get("a") is None
    assert store.resolve_alias("x") is None


def test_an_alias_belongs_to_the_document_that_was_stored_last():
    store = ReplyStore()
    store.put("a", b"1", ["x"])
    store.put("b", b"2", ["x"])
    store.delete("a")

    assert "b" == store.resolve_alias("x")


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_bytes": 3}])
def test_a_document_beyond_the_limits_is_not_stored(limits):
    store = ReplyStore(**limits)
    store.put("a", b"1234")

    assert store.get("a") is None


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.binary(max_size=40), st.lists(st.sampled_from("xyz"))), max_size=30
    )
)
def test_the_store_never_exceeds_its_limits(documents):
    store = ReplyStore(max_entries=3, max_bytes=100)
    for name, document, aliases in documents:
        store.put(name, document, aliases)
    found = [document for name in "abcdef" if (document := store.get(name)) is not None]

    assert len(found) <= 3
    assert sum(map(len, found)) <= 100
    assert all(store.get(store.resolve_alias(alias)) is not None for alias in "xyz" if store.resolve_alias(alias))
