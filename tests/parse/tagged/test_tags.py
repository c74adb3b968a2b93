"""Tags are read only when complete; more text never changes a result."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.errors import ConfigError
from fcshim.parse.scanner import MoreNeeded
from fcshim.parse.tagged.tag_reading import CompiledTags, NamedTag
from fcshim.parse.tagged.tags import BodyHeader, Tag, Tags

EQUALS = Tags(Tag("<function="), "</function>", Tag("<parameter="), "</parameter>")
ATTRIBUTES = Tags(
    Tag("<invoke", attribute="name"), "</invoke>", Tag("<p", attribute="name", type_attribute="t"), "</p>"
)
KEYS = Tags(
    Tag("", end="<sep>"),
    "</call>",
    Tag("<key>", end="</key>"),
    "</value>",
    value_open="<value>",
)


def _spelling(tags: Tags) -> CompiledTags:
    return CompiledTags(tags, ("<call>",), ("</call>",))


@pytest.mark.parametrize(
    ("tags", "text", "name"),
    [
        (EQUALS, "<function=f>", "f"),
        (EQUALS, "<function= f >", "f"),
        (EQUALS, '<function="a b">', "a b"),
        (EQUALS, "<function='größe'>", "größe"),
        (EQUALS, "\n  <function=f>", "f"),
        (ATTRIBUTES, '<invoke name="f">', "f"),
        (ATTRIBUTES, "<invoke name='f' >", "f"),
        (ATTRIBUTES, "<invoke name=f>", "f"),
        (ATTRIBUTES, '<invoke  id=7 name = "f" x="1">', "f"),
        (ATTRIBUTES, '<invoke name="a>b">', "a>b"),
        (KEYS, "f\n<key>", "f"),
        (KEYS, "f<sep><key>", "f"),
        (KEYS, "  f b \n</call>", "f b"),
    ],
)
def test_a_call_opening_gives_the_name(tags: Tags, text: str, name: str) -> None:
    found = _spelling(tags).read_call(text, 0)

    assert found
    assert name == found.name


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (EQUALS, "<function=>"),
        (EQUALS, "<function=a\n>"),
        (EQUALS, "<function=<b>"),
        (EQUALS, "<function=" + "a" * 300),
        (EQUALS, "<func>"),
        (ATTRIBUTES, "<invoke>"),
        (ATTRIBUTES, '<invoke id="1">'),
        (ATTRIBUTES, '<invoke name="a\n">'),
        (ATTRIBUTES, '<invoke name="' + "a" * 700),
        (ATTRIBUTES, "<invoked>" + "a" * 700),
        (KEYS, '{"name": 1}\n<key>'),
        (KEYS, "\n\n\n<key>"),
        (KEYS, "a" * 300),
    ],
)
def test_other_text_is_no_call_opening(tags: Tags, text: str) -> None:
    assert _spelling(tags).read_call(text, 0) is None


@pytest.mark.parametrize(
    ("tags", "text", "found"),
    [
        (EQUALS, "<parameter=k>v", NamedTag("k", "", 13)),
        (ATTRIBUTES, '<p name="k" t="string">v', NamedTag("k", "string", 23)),
        (ATTRIBUTES, '<p t="x" name="k">', NamedTag("k", "x", 18)),
        (KEYS, "<key>k</key>\n<value>v", NamedTag("k", "", 20)),
        (KEYS, "<key>k</key>\nvw", NamedTag("k", "", 13, lacks_value_open=True)),
    ],
)
def test_a_parameter_opening_gives_key_type_and_start_of_the_value(tags: Tags, text: str, found: NamedTag) -> None:
    assert found == _spelling(tags).read_parameter(text, 0)


def test_attributes_are_decoded_where_the_format_escapes_them() -> None:
    tags = Tags(Tag("<c", attribute="n"), "</c>", Tag("<p", attribute="n"), "</p>", entities=True)
    found = _spelling(tags).read_call('<c n="&quot;a&quot; &amp;lt;">', 0)

    assert found
    assert '"a" &lt;' == found.name
    assert '<c n="&quot;a&quot; &amp;lt;">' == tags.call_opening('"a" &lt;', 1)


def test_a_parameter_or_the_end_must_follow_a_confirmed_call() -> None:
    spelling = _spelling(EQUALS)

    assert spelling.read_confirmed_call("<function=f>\n<parameter=", 0)
    assert spelling.read_confirmed_call("<function=f></function>", 0)
    assert spelling.read_confirmed_call("<function=f> is how", 0) is None
    with pytest.raises(MoreNeeded):
        spelling.read_confirmed_call("<function=f>\n<para", 0)


def test_a_header_is_a_word_and_a_marker() -> None:
    header = BodyHeader("to=", r"[^\s<]{1,9}<m>")

    assert 4 == header.find_end("f<m>", 0)
    assert -1 == header.find_end("f g", 0)
    assert -1 == header.find_end("f" * 400, 0)
    with pytest.raises(MoreNeeded):
        header.find_end("f<", 0)


@pytest.mark.parametrize("empty", ["call_close", "parameter_close"])
def test_empty_tags_are_refused(empty: str) -> None:
    texts = {"call_close": "</c>", "parameter_close": "</p>"} | {empty: ""}

    with pytest.raises(ConfigError, match=empty):
        Tags(call=Tag("<c"), parameter=Tag("<p"), **texts)


PIECES = [
    "<function=",
    "<parameter=",
    "</parameter>",
    "<invoke",
    ' name="',
    '"',
    "'",
    ">",
    "<p",
    ' t="',
    "<key>",
    "\n",
    " ",
]
PIECES += ["</key>", "<value>", "<type>", "</type>", "k", "a=b", "=", "<sep>", "</call>", "a" * 90]


def _result(read: Callable[[str, int], NamedTag | None], text: str) -> NamedTag | str | None:
    try:
        return read(text, 0)
    except MoreNeeded:
        return "undecided"


@given(st.sampled_from([EQUALS, ATTRIBUTES, KEYS]), st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_more_text_never_changes_a_result(tags: Tags, text: str) -> None:
    spelling = _spelling(tags)
    for read in (spelling.read_call, spelling.read_confirmed_call, spelling.read_parameter):
        if read == spelling.read_parameter and not text.startswith(tags.parameter.head):
            continue
        results = [_result(read, text[:end]) for end in range(len(text) + 1)]
        for end, part in enumerate(results):
            assert part in {"undecided", results[-1]}, (text[:end], text)
