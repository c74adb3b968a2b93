"""What of a reply's text is shown, and what is set aside as the markup of a call."""

import pytest

from fcshim.chat.call_markup import ReplyText, without_markup

SHOWN_WHOLE = [
    "Hello.",
    "1 < 2, and a [list](link) [of] <b>tags</b>, </div>",
    ">>> import functools\n>>> functools.partial(f)",
    "Qwen writes `<tool_call>` before a call.",
    "Like this:\n```xml\n<tool_call>\n{}\n</tool_call>\n```\nThat is all.",
    "   ~~~\n<function=f>\n~~~",
    '{"name": "x", "arguments": {}}',
    "It ends with <tool",
    "",
]
CUT = [
    ("", '<function_call>\n{"name": "How", "arguments": {}}\n</function_call>'),
    ("Sure.\n", '<tool_call>\n{"name": "x"}\n</tool_call>\nDone?'),
    ("Sure. ", "<tool_call>broken"),
    ('hello returned {"city": "Hi"}}\n', "</function_call>"),
    ("", '[TOOL_CALLS][{"name":"x","arguments":{}}]'),
    ("", "<｜tool▁calls▁begin｜>function"),
    ("", "<function=foo><parameter=a>1</parameter></function>"),
    ("", "✿FUNCTION✿: x\n✿ARGS✿: {}"),
    ("`a` and ", "<invoke name=x>"),
    ("```\ncode\n```\n", "<tool_call>{}</tool_call>"),
    ("a ` b\n", "<tool_call>{}</tool_call>"),
]


def pieces(reply, texts):
    shown, aside = zip(*map(reply.feed, texts), strict=True) if texts else ((), ())
    return "".join(shown) + reply.close(), "".join(aside)


@pytest.mark.parametrize(("shown", "aside"), [*((text, "") for text in SHOWN_WHOLE), *CUT])
def test_markup_outside_code_is_set_aside_in_any_split(shown, aside):
    text = shown + aside
    whole = pieces(ReplyText(), [text])
    single = pieces(ReplyText(), list(text))
    halves = {pieces(ReplyText(), [text[:at], text[at:]]) for at in range(len(text) + 1)}

    assert (shown, aside) == whole == single
    assert {whole} == halves
    assert shown == without_markup(text)


def test_text_is_shown_as_soon_as_it_begins_no_tag():
    reply = ReplyText()

    assert [("Once ", ""), ("upon ", ""), ("<b>", "")] == [reply.feed(each) for each in ("Once ", "upon ", "<b>")]
