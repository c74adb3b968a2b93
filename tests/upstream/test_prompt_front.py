"""A line of the system prompt that varies between requests is found, if the same text follows it."""

import pytest

from fcshim.messages import Request, SystemMessage, TextPart, UserMessage
from fcshim.upstream.prompt_reading import PromptFronts

RULES = "\n".join(f"Rule {number}: keep the files of module {number} as they are." for number in range(200))


def prompt(*system: str, said: str = "Hi") -> Request:
    messages = [SystemMessage((TextPart(text),)) for text in system]
    return Request(model="m", messages=(*messages, UserMessage((TextPart(said),))))


def compare(*prompts: Request) -> list[str]:
    fronts = PromptFronts()
    return [str(fronts.compare(each) or "") for each in prompts]


@pytest.mark.parametrize(
    "line",
    ["x-billing-header: version=1.2; cch={}", "Today is day {} of the week.", "Session {}", "{}"],
    ids=["header", "date", "session", "number"],
)
def test_a_line_at_the_front_that_varies_is_named(line):
    first, second, third = compare(*(prompt(f"{line.format(number)}\n{RULES}") for number in (7, 8, 10_000)))

    assert "" == first
    assert second.startswith("about 2,")
    assert second.endswith(f"line 1 differs from the requests before: {line.format(8)!r}")
    assert third.endswith(repr(line.format(10_000)))


def test_a_line_in_the_middle_is_named_with_what_follows_it():
    texts = [f"You are an agent.\n\n{RULES}\nFolder: /tmp/{number}\n{RULES}" for number in range(2)]
    _, second = compare(*map(prompt, texts))

    assert "line 203 differs from the requests before: 'Folder: /tmp/1'" in second


def test_a_line_that_is_inserted_is_named():
    _, second = compare(prompt(RULES), prompt(f"Be brief.\n{RULES}"))

    assert "line 1 differs from the requests before: 'Be brief.'" in second


def test_the_same_prompt_of_other_conversations_is_no_finding():
    assert ["", ""] == compare(prompt(RULES, said="a"), prompt(RULES, said="b"))


def test_two_agents_that_take_turns_are_no_finding():
    one, other = prompt(f"Main.\n{RULES}"), prompt(f"Sub-agent.\n{RULES}")
    found = compare(one, other, one, other, one, other)

    assert ["", "", "", "", ""] == [found[0], *found[2:]]
    assert "'Sub-agent.'" in found[1]


def test_it_is_found_among_the_prompts_of_other_agents():
    other = RULES.replace("Rule", "Law")
    found = compare(prompt(other), prompt(f"1\n{RULES}"), prompt(f"2\n{RULES}"))

    assert ["", ""] == found[:2]
    assert "line 1 differs from the requests before: '2'" in found[2]


def test_other_prompts_and_short_ones_are_no_finding():
    other = RULES.replace("Rule", "Law")

    assert ["", "", "", ""] == compare(prompt(RULES), prompt(other), prompt("1\nshort"), prompt("2\nshort"))


def test_what_varies_at_the_end_is_no_finding():
    assert ["", ""] == compare(*(prompt(f"{RULES}\nToday is day {number}.") for number in range(2)))


def test_a_prompt_without_a_system_text_is_no_finding():
    assert ["", ""] == compare(prompt(said=RULES), prompt(said=f"1\n{RULES}"))
