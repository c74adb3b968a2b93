"""What continues what in a reply, in each format of a body."""

import pytest

from fcshim.server.reply_strings import reply_strings

EVENTS = b"""event: x
data: {"delta": "ab", "index": 0}

: ping

data: {"index": 0,
data: "delta": "cd"}

data: [DONE]

"""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (EVENTS, {"abcd"}),
        (EVENTS.replace(b"\n", b"\r\n"), {"abcd"}),
        (b'{"message": {"content": "ab"}}\n{"message": {"content": "cd"}}\n', {"abcd"}),
        (b'[{\n"a": ["ab",\n"cd"]},\n{"a": "ef"}]', {"abcdef"}),
        (b'{"c": [{"index": 0, "t": "a"}, {"index": 1, "t": "x"}]}\n{"c": [{"index": 0, "t": "b"}]}', {"ab", "x"}),
        (b'{"reasoning": "a", "content": "x"}\n{"reasoning": "b"}', {"ab", "x"}),
        (b'data: {"a": "b\n', {'{"a": "b'}),
        (b'{"a": "b', {'{"a": "b'}),
        (b"", set()),
        (b"<html>ab</html>", set()),
    ],
)
def test_strings_of_one_field_are_joined(data, expected):
    assert expected <= set(reply_strings(data))
