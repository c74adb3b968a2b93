"""Custom tools: whatever stands in the place of the arguments, their one text is what the model wrote."""

import json

import pytest

from fcshim.codecs.openai_chat.request import read_custom
from fcshim.messages import Tool
from fcshim.parse.limits import Limits
from tests.parse.cases import Case, check

TEXT = '*** Begin Patch\n*** Update File: a.py\n@@\n-x = "1"\n+x = {"a": [1]}  # </b>\n*** End Patch'
PATCH = read_custom({"name": "apply_patch", "description": "Never wrap the patch in JSON."}, "tool")
OTHER = Tool("other", "", {"type": "object", "properties": {"input": {"type": "string"}}})
QUOTED = json.dumps(TEXT)
DOUBLE = json.dumps(json.dumps({"input": TEXT}))

WRITTEN = {
    "the argument": f'{{"name": "apply_patch", "arguments": {{"input": {QUOTED}}}}}',
    "a string": f'{{"name": "apply_patch", "arguments": {QUOTED}}}',
    "a string before the name": f'{{"arguments": {QUOTED}, "name": "apply_patch"}}',
    "a string beside the name": f'{{"name": "apply_patch", "input": {QUOTED}}}',
    "a string with line breaks": f'{{"name": "apply_patch", "arguments": {QUOTED}}}'.replace("\\n", "\n"),
    "the argument as a string": f'{{"name": "apply_patch", "arguments": {DOUBLE}}}',
    "another name": f'{{"name": "apply_patch", "arguments": {{"patch": {QUOTED}}}}}',
    "a call of Python": f'apply_patch("""{TEXT}""")',
    "a call of Python with a name": f'apply_patch(patch="""{TEXT}""")',
}


FORMS = {"function_call": ("<function_call>\n", "\n</function_call>"), "hermes": ("<tool_call>\n", "\n</tool_call>")}


def read(reply, *, value=None, error=None, **options):
    expected = {"call": "apply_patch", "error": error, **({} if value is None else {"value": {"input": value}})}
    check(Case("custom", reply, calls=[] if error else [expected], tools=[PATCH, OTHER], options=options))


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("dialect", FORMS)
@pytest.mark.parametrize("arguments", ["stream", "resumable", "validated", "checked"])
def test_the_text_of_a_custom_tool_is_read(dialect, body, arguments):
    before, after = FORMS[dialect]

    read(before + body + after, value=TEXT, dialect=dialect, arguments=arguments, rescue=True)


@pytest.mark.parametrize("arguments", [{}, {"input": "a", "patch": "b"}, {"patch": ["a"]}, ["a"], 7, None])
def test_what_is_not_one_text_is_no_call(arguments):
    body = json.dumps({"name": "apply_patch", "arguments": arguments})

    read(f"<function_call>\n{body}\n</function_call>", error="invalid")


def test_a_text_that_is_json_is_the_text():
    text = '{"patch": "a"}'

    read(f"<function_call>\n{json.dumps({'name': 'apply_patch', 'arguments': text})}\n</function_call>", value=text)


def test_other_tools_take_no_text():
    body = json.dumps({"name": "other", "arguments": "a"})
    check(Case("other", f"<function_call>\n{body}\n</function_call>", calls=[], tools=[PATCH, OTHER]))


TAGGED = "<tool_call>\n<function=apply_patch>\n{}\n</function>\n</tool_call>"


@pytest.mark.parametrize("text", [TEXT, "  indented\n\n\nend", "<b>x</b>", "one", "<div>\n"])
def test_the_text_may_stand_in_the_place_of_the_parameters(text):
    read(TAGGED.format(text), value=text, dialect="qwen3_xml")
    read(TAGGED.format(f"<parameter=patch>\n{text}\n</parameter>"), value=text, dialect="qwen3_xml")


UNCERTAIN = [
    *("a </function> b", "x\n</function>\ny", "a <parameter=x> b</parameter>", "a</parameter>", "<parameters>\na"),
    *('{"a": 1}', ""),
]


@pytest.mark.parametrize("text", UNCERTAIN)
def test_a_text_whose_end_is_not_certain_is_no_call(text):
    read(TAGGED.format(text), error="malformed", dialect="qwen3_xml")


NAMED = "<function_call>\napply_patch\n{}\n</function_call>"
CALL_OF_OTHER = '<function_call>\n{"name": "other", "arguments": {}}\n</function_call>'


def read_named(reply, *calls):
    options = {"dialect": "function_call", "rescue": True}
    check(Case("named", reply, calls=list(calls), tools=[PATCH, OTHER], options=options, last=True))


@pytest.mark.parametrize("text", [TEXT, "  indented\n\n\nend", "<b>x</b>", "one", "</function_cal\n\n", "[1]"])
@pytest.mark.parametrize("after", ["", "\n", f"\n\n{CALL_OF_OTHER}"])
def test_the_text_may_follow_the_name(text, after):
    call = {"call": "apply_patch", "error": None, "value": {"input": text}}
    other = {"call": "other", "error": None, "value": {}}

    read_named(NAMED.format(text) + after, call, *([other] if "other" in after else []))


@pytest.mark.parametrize("text", ["a </function_call> b", "a\n<function_call>\nb", '{"a": 1}', ""])
def test_a_text_after_the_name_whose_end_is_not_certain_is_no_call(text):
    read_named(NAMED.format(text))


@pytest.mark.parametrize(
    "wrapped",
    [
        "```\n{}\n```",
        "```diff\n{}\n```",
        "<![CDATA[{}]]>",
        "<arguments>{}</arguments>\n",
        "<args>\n{}\n</args>",
    ],
)
def test_a_text_in_what_may_be_markup_is_no_call(wrapped):
    read_named(NAMED.format(wrapped.format(TEXT)))


@pytest.mark.parametrize("text", ["```\na\n```\n\n```\nb\n```", "<html>\n</html>", "a ```b```"])
def test_a_text_with_markup_of_its_own_is_the_text(text):
    read_named(NAMED.format(text), {"call": "apply_patch", "error": None, "value": {"input": text}})


@pytest.mark.parametrize("element", ["<input>\n{}\n</input>", "<input>{}</input>\n"])
def test_the_element_of_the_parameter_is_no_text(element):
    read_named(NAMED.format(element.format(TEXT)), {"call": "apply_patch", "error": None, "value": {"input": TEXT}})


@pytest.mark.parametrize("line", ["", "\n"])
@pytest.mark.parametrize("key", ["input", "patch"])
@pytest.mark.parametrize("dialect", ["glm", "hermes", "function_call", "auto"])
def test_the_text_may_stand_in_the_tags_of_a_parameter_after_the_name(dialect, key, line):
    pair = f"<arg_key>{key}</arg_key>\n<arg_value>{TEXT}</arg_value>"

    read(f"<tool_call>{line}apply_patch\n{pair}\n</tool_call>", value=TEXT, dialect=dialect, rescue=True)


@pytest.mark.parametrize(
    "tag", ["<parameter=input>", '<parameter name="input">', "<parameter>", "<arg_key>input</arg_key>"]
)
def test_tags_of_parameters_are_no_text(tag):
    read_named(NAMED.format(f"{tag}\n{TEXT}\n</parameter>"))


@pytest.mark.parametrize("after", ["\nDone.", "</function_call>", "\n</tool_call>"])
def test_text_after_a_text_makes_its_end_uncertain(after):
    read_named(NAMED.format(TEXT) + after)


@pytest.mark.parametrize("name", ["other", "unknown", "Note:"])
def test_only_the_name_of_a_custom_tool_begins_a_text(name):
    read_named(NAMED.replace("apply_patch", name).format(TEXT))


@pytest.mark.parametrize("stop_reason", ["complete", "max_tokens"])
def test_a_text_after_the_name_without_end_marker_is_no_call(stop_reason):
    reply = NAMED.format(TEXT).partition("End")[0]

    check(Case("cut", reply, calls=[], tools=[PATCH], options={"rescue": True}, stop_reason=stop_reason, last=True))


def test_a_text_beyond_the_limit_is_no_call():
    options = {"rescue": True, "limits": Limits(arguments=20)}

    check(Case("long", NAMED.format("x" * 30), calls=[], tools=[PATCH], options=options, last=True))


def test_a_text_that_was_cut_off_is_no_call():
    reply = TAGGED.format(TEXT).partition("End")[0]
    case = Case("cut", reply, calls=[], tools=[PATCH], options={"dialect": "qwen3_xml"}, stop_reason="max_tokens")

    check(case)


def test_other_tools_take_no_text_between_tags():
    reply = TAGGED.replace("apply_patch", "other").format(TEXT)
    check(Case("other", reply, calls=[], tools=[PATCH, OTHER], options={"dialect": "qwen3_xml"}))


IN_MARKER = [
    ('<function_call name="apply_patch">\n{}\n</function_call>', "function_call"),
    ('<tool_call name="apply_patch">\n{}\n</tool_call>', "function_call"),
    ('<call name="apply_patch" id="c1">\n{}\n</call>', "hermes"),
    ("<function=apply_patch>\n{}\n</function>", "function_call"),
    ("<function=apply_patch>\n{}\n</function>", "qwen3_xml"),
]


@pytest.mark.parametrize(("form", "dialect"), IN_MARKER)
@pytest.mark.parametrize(
    "text", [TEXT, "  indented\n\n\nend", "one", "[1]", "two\n\nlines", json.dumps({"input": "a"})]
)
def test_the_text_may_follow_a_start_marker_that_holds_the_name(form, dialect, text):
    value = "a" if text.startswith("{") else text
    right = {"call": "apply_patch", "error": None, "value": {"input": value}}
    options = {"dialect": dialect, "rescue": True}

    check(Case("custom", form.format(text), calls=[right], tools=[PATCH, OTHER], options=options, last=True))


@pytest.mark.parametrize(("form", "dialect"), IN_MARKER)
def test_other_tools_take_no_text_after_such_a_marker(form, dialect):
    reply = form.replace("apply_patch", "other").format(TEXT)

    check(Case("other", reply, calls=[], tools=[PATCH, OTHER], options={"dialect": dialect, "rescue": True}, last=True))


@pytest.mark.parametrize("text", ["Write `<function=apply_patch>` first.", "So <function=apply_patch> it is.\nDone."])
def test_the_mention_of_a_tag_is_text(text):
    check(Case("mention", text, calls=[], tools=[PATCH], options={"dialect": "qwen3_xml", "rescue": True}, last=True))


@pytest.mark.parametrize("text", [TEXT, "one", "  two\n\nlines"])
@pytest.mark.parametrize("space", ["\n", ""])
def test_a_text_in_the_place_of_parameters_with_another_closing_tag_is_read_to_its_end(space, text):
    call = f'<invoke name="apply_patch">{space}{text}{space}</invoke>'
    reply = f"<function_calls>\n{call}\n</function_calls>"
    right = {"call": "apply_patch", "error": None, "value": {"input": text}}

    check(Case("invoke", reply, at_most=[right], tools=[PATCH], options={"rescue": True}, last=True))


@pytest.mark.parametrize("text", ["<p>hi</p>", "</b> ends", "<", "\n<parm", " \n <invoked>", "</parameters>"])
@pytest.mark.parametrize("dialect", ["qwen3_xml", "seed_oss"])
def test_a_text_may_begin_like_a_tag(dialect, text):
    call = f"<function=apply_patch>\n{text}\n</function>"
    reply = (
        f"<tool_call>\n{call}\n</tool_call>" if dialect == "qwen3_xml" else f"<seed:tool_call>{call}</seed:tool_call>"
    )
    right = {"call": "apply_patch", "error": None, "value": {"input": text}}

    check(Case("like a tag", reply, at_most=[right], tools=[PATCH, OTHER], options={"dialect": dialect}))
