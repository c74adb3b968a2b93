"""Tools are searched by English words, which the model writes for messages in other languages."""

import json
import logging

import pytest

from fcshim import Client
from tests.scripted import MISSING, ReceivedRequest, Script, scripted_upstream, text_reply

NAMES = ["get_current_weather", "set_timer", "get_order_status", "set_light", "send_email", "book_flight"]
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"To {name.replace('_', ' ')}.", "parameters": {}}}
    for name in NAMES
]
ENGLISH = {
    "Stell einen Timer auf 8 Minuten.": "Set a timer for 8 minutes.",
    "Mach das Licht an.": "Turn the light on.",
    "Wie ist das Wetter?": "How is the weather?",
}


class Translator:
    """Plays a model that translates, and answers everything else."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.translated: list[str] = []
        self.prompts: list[str] = []
        self.bodies: list[dict] = []

    def respond(self, request: ReceivedRequest) -> Script:
        messages = request.body["messages"]
        if messages[0]["content"].startswith("Translate"):
            self.translated.append(messages[-1]["content"])
            self.bodies.append(request.body)
            return MISSING if self.fails else text_reply(ENGLISH[messages[-1]["content"]])
        self.prompts.append(messages[0]["content"])
        return text_reply("Done.")

    def described(self) -> list[list[str]]:
        """Return the tools that each system prompt describes."""
        return [[name for name in NAMES if f"To {name.replace('_', ' ')}." in prompt] for prompt in self.prompts]


async def converse(model: Translator, *conversations: list[str], **settings) -> None:
    async with scripted_upstream(respond=model.respond) as upstream:
        options = {"max_tools": 1, "tool_search": "translated", "tools": "prompt", "constrain": "off", **settings}
        async with Client(upstream.url, model="m", **options) as client:
            for said in conversations:
                messages: list[dict] = []
                for text in said:
                    messages.append({"role": "user", "content": text})
                    reply = await client.complete(messages, TOOLS)
                    messages.append({"role": "assistant", "content": reply.text})


async def test_the_tool_is_found_by_the_translation():
    model = Translator()
    await converse(model, ["Mach das Licht an."])

    assert [["set_light"]] == model.described()


async def test_without_the_setting_the_words_alone_count():
    model = Translator()
    await converse(model, ["Mach das Licht an."], tool_search="words")

    assert [] == model.translated
    assert [["get_current_weather"]] == model.described()  # the first, as no word is known


async def test_a_message_is_translated_once_and_the_shown_tools_stay():
    model = Translator()
    await converse(model, ["Mach das Licht an.", "Wie ist das Wetter?", "Mach das Licht an."], ["Mach das Licht an."])

    assert ["Mach das Licht an.", "Wie ist das Wetter?"] == model.translated
    assert 4 * [["set_light"]] == model.described()
    assert 1 == len(set(model.prompts))


@pytest.mark.parametrize("said", ["Set the light to 30.", "Send an email.", "Wo ist der Timer?", "  ", "set_light"])
async def test_a_message_that_names_a_tool_is_not_translated(said):
    model = Translator()
    await converse(model, [said])

    assert [] == model.translated


@pytest.mark.parametrize("settings", [{"max_tools": 0}, {"max_tools": 6}, {"tools": "native"}], ids=str)
async def test_nothing_is_translated_where_no_tool_is_left_out(settings):
    model = Translator()
    await converse(model, ["Mach das Licht an."], **settings)

    assert [] == model.translated


async def test_a_failure_leaves_the_words_of_the_message(caplog):
    caplog.set_level(logging.INFO, "fcshim.upstream")
    model = Translator(fails=True)
    await converse(model, ["Mach das Licht an."])

    assert ["Mach das Licht an."] == model.translated
    assert [["get_current_weather"]] == model.described()
    assert "a message could not be translated" in caplog.text


async def test_a_long_conversation_is_not_translated_at_once():
    model = Translator()
    ENGLISH.update({f"Wort {number}": "a light" for number in range(9)})
    messages = [
        each
        for number in range(9)
        for each in (
            {"role": "user", "content": f"Wort {number}"},
            {"role": "assistant", "content": "Gut."},
        )
    ]
    async with scripted_upstream(respond=model.respond) as upstream:
        options = {"max_tools": 1, "tool_search": "translated", "tools": "prompt", "constrain": "off"}
        async with Client(upstream.url, model="m", **options) as client:
            await client.complete(messages[:-1], TOOLS)

    assert [f"Wort {number}" for number in range(4)] == model.translated


async def test_only_a_server_that_takes_grammars_gets_one():
    plain, constrained = Translator(), Translator()
    await converse(plain, ["Mach das Licht an."])
    await converse(constrained, ["Mach das Licht an."], constrain="llama-server")

    assert "grammar" not in plain.bodies[0]
    assert json.dumps(constrained.bodies[0]["grammar"]).startswith('"root ::= ')
