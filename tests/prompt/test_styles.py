"""Prompt styles are templates for every dialect: they show its form of calls, and the words of the style around it."""

import pytest

from fcshim.errors import ConfigError
from fcshim.messages import (
    AssistantMessage,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.parse.stream import parse
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.render import PLACEHOLDER_CALL, render_calls, render_system
from fcshim.prompt.styles import OWN_STYLE, PROMPT_STYLES, PromptStyle, chosen_style, get_style
from fcshim.reply import fold

TOOLS = (
    Tool("find_book", "Find a book.", {"type": "object", "properties": {"title": {"type": "string"}}}),
    Tool("lend", "Lend a book.", {"type": "object", "properties": {"days": {"type": "integer"}}}),
)
WRITTEN = [style for style in PROMPT_STYLES.values() if style.template]


@pytest.mark.parametrize("style", WRITTEN, ids=lambda style: style.name)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_every_style_shows_the_tools_and_the_form_of_calls_of_every_dialect(
    dialect: Dialect, style: PromptStyle
) -> None:
    prompt = render_system(dialect, TOOLS, style=style.listing, words=style)

    assert all(tool.name in prompt for tool in TOOLS)
    assert render_calls(dialect, [PLACEHOLDER_CALL]) in prompt
    assert not dialect.result.open or dialect.result.open not in prompt


@pytest.mark.parametrize("style", WRITTEN, ids=lambda style: style.name)
def test_a_style_read_back_as_a_reply_calls_no_offered_tool(style: PromptStyle) -> None:
    prompt = render_system(FUNCTION_CALL, TOOLS, style=style.listing, words=style)

    assert () == fold(parse(prompt, "auto", TOOLS)).tool_calls


@pytest.mark.parametrize("style", WRITTEN, ids=lambda style: style.name)
def test_a_style_states_the_tool_choice_and_whether_several_calls_may_be_written(style: PromptStyle) -> None:
    def prompt(choice: ToolChoice, *, parallel: bool) -> str:
        return render_system(FUNCTION_CALL, TOOLS, choice, parallel=parallel, style=style.listing, words=style)

    free = prompt(ToolChoice(), parallel=True)

    assert "Now you must call" not in free
    assert f"{free}\n" in prompt(ToolChoice("required"), parallel=True)
    assert free.count("<function_call>") > prompt(ToolChoice(), parallel=False).count("<function_call>")


def test_a_line_after_results_follows_the_results_of_each_step_and_stays_in_later_requests() -> None:
    style = PromptStyle("x", "", after_results="Now answer.")
    turns = (
        UserMessage((TextPart("Find it."),)),
        AssistantMessage((), tool_calls=(ToolCall("a", "find_book", "{}"),)),
        ToolMessage("a", (TextPart("found"),)),
    )
    later = (*turns, AssistantMessage((TextPart("It is here."),)), UserMessage((TextPart("Thanks"),)))
    first, second = (
        [text_of(message.content) for message in prepare_shim(request, style=style).prepared.messages]
        for request in (
            Request(model="m", messages=turns, tools=TOOLS),
            Request(model="m", messages=later, tools=TOOLS),
        )
    )

    assert first[-1].endswith("</function_result>\n\nNow answer.")
    assert first == second[: len(first)]


def test_the_setting_of_the_listing_replaces_the_one_of_the_style() -> None:
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=TOOLS)
    style = get_style("example")

    assert "function lend(" in text_of(prepare_shim(request, style=style).prepared.messages[0].content)
    assert '"lend"' in text_of(prepare_shim(request, style=style, tools_style="schema").prepared.messages[0].content)


def test_an_unknown_style_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'example'.*own"):
        get_style("exmple")

    assert chosen_style("own", "any model", "function_call") is OWN_STYLE


def test_the_automatic_style_follows_from_the_model_and_then_from_the_dialect() -> None:
    assert "example" == chosen_style("auto", "any model", "function_call").name
    assert OWN_STYLE is chosen_style("auto", "any model", "hermes")
    assert OWN_STYLE is chosen_style("auto", "fcshim-tiny", "function_call")
