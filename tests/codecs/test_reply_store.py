import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.reply_store import ReplyStore


def test_a_document_is_found_by_its_name_and_named_by_its_aliases():
    memory = ReplyStore()
    memory.put("a", b"1", ["x", "y"])

    assert b"1" == memory.get("a")
    assert "a" == memory.resolve_alias("y")
    assert memory.get("x") is None


def test_what_was_used_last_is_kept_longest():
    memory = ReplyStore(max_entries=2)
    memory.put("a", b"1", ["x"])
    memory.put("b", b"2")
    memory.get("a")
    memory.put("c", b"3")

    assert [b"1", None, b"3"] == [memory.get(name) for name in "abc"]


def test_a_forgotten_document_is_gone_with_its_aliases():
    memory = ReplyStore()
    memory.put("a", b"1", ["x"])

    assert [True, False] == [memory.delete("a"), memory.delete("a")]
    assert memory.get("a") is None
    assert memory.resolve_alias("x") is None


def test_an_alias_belongs_to_the_document_that_took_it_last():
    memory = ReplyStore()
    memory.put("a", b"1", ["x"])
    memory.put("b", b"2", ["x"])
    memory.delete("a")

    assert "b" == memory.resolve_alias("x")


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_bytes": 3}])
def test_what_does_not_fit_is_not_kept(limits):
    memory = ReplyStore(**limits)
    memory.put("a", b"1234")

    assert memory.get("a") is None


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.binary(max_size=40), st.lists(st.sampled_from("xyz"))), max_size=30
    )
)
def test_it_never_holds_more_than_it_may(kept):
    memory = ReplyStore(max_entries=3, max_bytes=100)
    for name, document, aliases in kept:
        memory.put(name, document, aliases)
    found = [document for name in "abcdef" if (document := memory.get(name)) is not None]

    assert len(found) <= 3
    assert sum(map(len, found)) <= 100
    assert all(memory.get(memory.resolve_alias(alias)) is not None for alias in "xyz" if memory.resolve_alias(alias))
