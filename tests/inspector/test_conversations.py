"""Which requests go on with which conversation, and what is shown of their users' words."""

import pytest

from fcshim.messages import AssistantMessage, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage
from fcshim.server.inspector.conversations import MAX_WORDS, Conversations, last_results, last_words


def user(*texts: str) -> UserMessage:
    return UserMessage(tuple(map(TextPart, texts)))


def reply(text: str = "", *names: str) -> AssistantMessage:
    return AssistantMessage((TextPart(text),), tuple(ToolCall(f"c{at}", name, "{}") for at, name in enumerate(names)))


def result(text: str, at: int = 0) -> ToolMessage:
    return ToolMessage(f"c{at}", (TextPart(text),))


FIRST, SYSTEM = user("Hi"), SystemMessage((TextPart("Be brief."),))
TURNS = [
    SYSTEM,
    FIRST,
    reply("Hello."),
    user("Read a."),
    reply("", "read"),
    result("text of a"),
    reply("Done."),
    user("And b?"),
]


def test_each_turn_goes_on_with_its_conversation_whatever_becomes_of_the_system_prompt():
    known = Conversations()
    lengths = (2, 4, 6, 8)
    numbers = [known.number_of([SystemMessage((TextPart(f"at {length}"),)), *TURNS[1:length]]) for length in lengths]

    assert [1, 1, 1, 1] == numbers


@pytest.mark.parametrize(
    "changed",
    [
        [reply("Hello!"), user("Read a.")],  # the reply comes back in another form
        [reply("Hello."), user("Read a.", "<system-reminder>Now.</system-reminder>")],  # an agent adds something
        [reply("A summary of all.")],  # compacted
    ],
)
def test_a_conversation_whose_later_messages_change_stays_one(changed):
    known = Conversations()
    known.number_of([FIRST])
    known.number_of([FIRST, *TURNS[2:4]])

    assert 1 == known.number_of([FIRST, *changed, user("Next")])


def test_two_users_who_begin_with_the_same_words_have_two_conversations():
    known = Conversations()
    first, second = known.number_of([FIRST]), known.number_of([FIRST])
    third = known.number_of([FIRST, reply("Hello."), user("One")])
    known.number_of([FIRST, reply("Hello."), user("Two")])

    assert (1, 2) == (first, second)
    assert third == known.number_of([FIRST, reply("Hello."), user("One"), reply("1"), user("More")])


def test_other_words_begin_another_conversation_and_no_message_is_no_error():
    known = Conversations()

    assert [1, 2, 3, 4] == [known.number_of(each) for each in ([FIRST], [user("Hey")], [], [reply("x"), user("y")])]


def test_known_conversations_are_limited():
    known = Conversations()
    for at in range(10_050):
        known.number_of([user(str(at))])

    assert 10_000 == len(known._known)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([FIRST], "Hi"),
        ([FIRST, reply("Hello."), user("  More  ")], "More"),
        (TURNS[:6], "Read a."),
        ([user("<system-reminder>Today.</system-reminder>", "Fix it")], "Fix it"),
        ([user("Fix it", "<system-reminder>Today.</system-reminder>")], "Fix it"),
        ([user("<env>\nlinux\n</env>\nFix it")], "Fix it"),
        ([user("Fix it"), user("<environment_context>linux</environment_context>")], "Fix it"),
        ([user("<env>only</env>")], "<env>only</env>"),
        ([user("<script>x()</script> Why?")], "<script>x()</script> Why?"),
        ([user("<b> is a tag")], "<b> is a tag"),
        ([user("a < b and c > d")], "a < b and c > d"),
        ([user("x" * 5_000)], "x" * MAX_WORDS),
        ([UserMessage((TextPart("a page", document=True), TextPart("Sum it up")))], "Sum it up"),
        ([reply("x")], ""),
        ([], ""),
    ],
)
def test_the_last_words_are_the_users_own(messages, words):
    assert words == last_words(messages)


def test_the_results_since_the_user_spoke_are_named():
    both = [FIRST, reply("", "read", "grep"), result("a"), result("b", 1)]

    assert ["read", "grep"] == last_results(both)
    assert [] == last_results([*both, user("Go on")])
