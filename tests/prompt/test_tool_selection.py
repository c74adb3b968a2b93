"""Selection of the described tools when there are too many."""

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fcshim.client import read_request
from fcshim.evaluate.suite import DEFAULT_CATEGORIES, load_cases, tool_sets
from fcshim.messages import AssistantMessage, Message, Tool, ToolCall, ToolMessage, UserMessage
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.history import split_steps
from fcshim.prompt.listing import ToolSelection, select_tools
from tests.prompt.conversations import conversations, text

WEATHER = Tool("get_weather", "The forecast for a city.")
MAIL = Tool("send_mail", "Send a letter to somebody.")
FILES = Tool("list_files", "What a folder holds.")
PRINT = Tool("print_page", "Put something on paper.")
TOOLS = (WEATHER, MAIL, FILES, PRINT)


def user(words: str) -> UserMessage:
    return UserMessage(text(words))


def call(name: str) -> AssistantMessage:
    return AssistantMessage((), (ToolCall("1", name, "{}"),))


def select(*messages: Message, maximum: int = 2, demanded: Sequence[str] = ()) -> ToolSelection:
    return select_tools(TOOLS, split_steps(messages), maximum, Escaper(BUNDLED), demanded)


def test_without_a_limit_all_tools_are_described() -> None:
    assert ToolSelection(TOOLS) == select(user("hi"), maximum=0)
    assert ToolSelection(TOOLS) == select(user("hi"), maximum=4)


def test_tools_relevant_to_the_first_message_are_described_in_the_clients_order() -> None:
    assert ToolSelection((WEATHER, PRINT), (MAIL, FILES)) == select(user("print the weather"))


def test_without_relevant_words_the_clients_first_tools_are_described() -> None:
    assert (WEATHER, MAIL) == select(user("hi")).described
    assert (WEATHER, MAIL) == select().described


def test_required_tools_are_described() -> None:
    assert (MAIL, PRINT) == select(user("print"), demanded=["send_mail"]).described
    assert TOOLS[:3] == select(user("print"), demanded=["send_mail", "get_weather", "list_files"]).described


def test_a_called_tool_is_described_after_its_result() -> None:
    conversation = [user("weather"), call("send_mail"), ToolMessage("1", ()), call("send_mail"), ToolMessage("1", ())]
    made = select(*conversation, maximum=1)

    assert ((WEATHER,), {1: (MAIL,)}) == (made.described, made.described_later)
    assert MAIL in made.name_only


def test_a_call_without_a_result_adds_nothing_yet() -> None:
    assert {} == select(user("weather"), call("send_mail"), maximum=1).described_later


def test_a_call_of_an_unknown_tool_adds_nothing() -> None:
    assert {} == select(user("weather"), call("rm"), ToolMessage("1", ()), maximum=1).described_later


def test_a_later_message_adds_the_tool_that_it_names() -> None:
    said = [user("the weather"), AssistantMessage(), user("now print it"), AssistantMessage(), user("and the weather?")]

    assert {1: (PRINT,)} == select(*said, maximum=1).described_later


def test_words_of_a_description_alone_add_no_tool_later() -> None:
    assert {} == select(user("the weather"), AssistantMessage(), user("and somebody?"), maximum=1).described_later


def test_at_most_three_tools_are_added_at_a_time() -> None:
    tools = [Tool("one"), *(Tool(f"mail_{at}") for at in range(9))]
    steps = split_steps([user("one"), AssistantMessage(), user("mail")])

    assert {1: tuple(tools[1:4])} == select_tools(tools, steps, 1, Escaper(BUNDLED)).described_later


def test_only_the_two_ends_of_a_long_message_are_read() -> None:
    assert (MAIL,) == select(user("mail " + "x " * 10_000), maximum=1).described
    assert (MAIL,) == select(user("x " * 10_000 + "mail"), maximum=1).described
    assert (WEATHER,) == select(user("x " * 10_000 + "mail" + " x" * 10_000), maximum=1).described


@given(conversations, st.integers(1, 4))
def test_the_selection_of_one_request_is_kept_in_the_next(
    conversation: tuple[list[Message], list[Message], list[list[Message]]], maximum: int
) -> None:
    _, said, later = conversation
    tools = [Tool(f"tool_{at}", "long") for at in range(4)]
    made = select_tools(tools, split_steps(said), maximum, Escaper(BUNDLED))
    for exchange in later:
        before, said = made, [*said, *exchange]
        made = select_tools(tools, split_steps(said), maximum, Escaper(BUNDLED))

        assert (before.described, before.name_only) == (made.described, made.name_only)
        assert before.described_later.items() <= made.described_later.items()
        assert len(tools) >= len(made.described) + sum(map(len, made.described_later.values()))


def test_eight_of_the_suites_hundred_tools_include_those_that_an_english_request_needs() -> None:
    tools = list({tool.name: tool for each in tool_sets().values() for tool in each}.values())
    found = []
    for case in load_cases([name for name in DEFAULT_CATEGORIES if name != "languages"]):
        wanted = {call.name for call in case.expected[0]} if case.expected else set()
        if wanted and wanted <= {tool.name for tool in tools}:
            made = select_tools(
                tools, split_steps(read_request(list(case.messages), (), {}).messages), 8, Escaper(BUNDLED)
            )
            shown = itertools.chain(made.described, *made.described_later.values())
            found.append(wanted <= {tool.name for tool in shown})

    assert len(tools) > 100
    assert len(found) > 300
    assert sum(found) >= 0.93 * len(found)
