"""The plugin of `llm`, with the embedded model as a model of another plugin."""

import asyncio
import json
import subprocess
import sys
from importlib.metadata import entry_points

import llm
import pytest
from click.testing import CliRunner
from llm.cli import cli
from llm.plugins import load_plugins, pm

from fcshim.demo.text_generator import EmbeddedGenerator
from fcshim.integrations import llm as plugin

EMBEDDED = EmbeddedGenerator()
QUESTION = "call add_numbers with first=19, second=23"
CALL = '<function_call>\n{"name": "add_numbers", "arguments": {"first": 19, "second": 23}}\n</function_call>'


def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def written(prompt):
    return [
        {"role": message.role, "content": "".join(part.text for part in message.parts)} for message in prompt.messages
    ]


class Tiny(llm.Model):
    """The embedded model, which knows no tools."""

    model_id = "fcshim-tiny"
    can_stream = True

    class Options(llm.Options):
        temperature: float | None = None

    def execute(self, prompt, stream, response, conversation):
        SEEN.append((written(prompt), prompt.options.temperature, prompt.tools))
        yield from EMBEDDED(written(prompt))


class AsyncTiny(llm.AsyncModel):
    """The same, async."""

    model_id = "fcshim-tiny"
    can_stream = True

    async def execute(self, prompt, stream, response, conversation):
        for piece in EMBEDDED(written(prompt)):
            await asyncio.sleep(0)
            yield piece


class Scripted(llm.Model):
    """Gives one written reply after the other."""

    model_id = "scripted"

    def execute(self, prompt, stream, response, conversation):
        SEEN.append((written(prompt), None, prompt.tools))
        yield REPLIES.pop(0)


class WithTools(Scripted):
    """A model that has tools."""

    model_id = "with-tools"
    supports_tools = True


SEEN, REPLIES = [], []


class Models:
    """Another plugin."""

    @llm.hookimpl
    def register_models(self, register):
        register(Tiny(), AsyncTiny(), aliases=("tiny",))
        register(Scripted())
        register(WithTools())


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    load_plugins()
    models = Models()
    pm.register(models)
    if not pm.is_registered(plugin):
        pm.register(plugin)
    SEEN.clear()
    yield
    pm.unregister(models)


def test_the_plugin_is_an_entry_point():
    (found,) = [each for each in entry_points(group="llm") if each.name == "fcshim"]

    assert plugin is found.load()


def test_models_without_tools_have_a_twin_that_calls_them():
    names = {each.model.model_id for each in llm.get_models_with_aliases()}

    assert {"fcshim-tiny", "fcshim/fcshim-tiny", "fcshim/scripted", "with-tools"} <= names
    assert not {"fcshim/with-tools", "fcshim/fcshim/scripted"} & names
    assert "fcshim/fcshim-tiny" == llm.get_model("fcshim/tiny").model_id


def test_a_real_model_takes_two_rounds_of_tools():
    chain = llm.get_model("fcshim/tiny").chain(QUESTION, tools=[add_numbers])

    assert "add_numbers returned 42" == chain.text().strip()
    assert 2 == len(SEEN)
    assert all(not tools for _, _, tools in SEEN)


def test_the_reply_streams():
    response = llm.get_model("fcshim/tiny").prompt("say hello")

    assert len(list(response)) > 2


def test_async_does_the_same():
    async def run():
        return await llm.get_async_model("fcshim/tiny").chain(QUESTION, tools=[add_numbers]).text()

    assert "add_numbers returned 42" == asyncio.run(run()).strip()


def test_options_and_the_system_prompt_reach_the_model():
    llm.get_model("fcshim/tiny").prompt("Hi", system="Be kind.", temperature=0.5).text()

    assert ([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}], 0.5) == SEEN[0][:2]


def test_a_conversation_has_its_past_calls_and_results():
    conversation = llm.get_model("fcshim/tiny").conversation(tools=[add_numbers])
    conversation.chain(QUESTION).text()
    conversation.chain("call add_numbers with first=1, second=2").text()
    messages = SEEN[-1][0]

    assert ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"] == [
        message["role"] for message in messages
    ]
    assert "19" in messages[2]["content"]
    assert "42" in messages[3]["content"]


def test_a_call_against_its_schema_is_asked_for_again():
    REPLIES[:] = [CALL.replace("23", '"many"'), CALL]
    response = llm.get_model("fcshim/scripted").prompt("Go", tools=[add_numbers])

    assert [{"first": 19, "second": 23}] == [call.arguments for call in response.tool_calls()]


def test_a_call_that_stays_invalid_is_an_error():
    REPLIES[:] = [CALL.replace("23", '"many"')] * 4

    with pytest.raises(Exception, match="second"):
        llm.get_model("fcshim/scripted").prompt("Go", tools=[add_numbers]).text()


def test_the_command_line_calls_a_function():
    code = "def add_numbers(first: int, second: int) -> int:\n    'Add.'\n    return first + second\n"
    done = CliRunner().invoke(cli, ["-m", "fcshim/tiny", "--functions", code, "--no-stream", QUESTION])

    assert (0, "add_numbers returned 42") == (done.exit_code, done.output.strip())


CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}


def answered(city):
    return f'<function_call>\n{{"name": "final_answer", "arguments": {{"city": "{city}"}}}}\n</function_call>'


@pytest.mark.parametrize(
    "replies", [[answered("Oslo")], ["Oslo!", answered("Oslo")], [answered("Bonn"), answered("Oslo")]]
)
def test_the_command_line_asks_for_a_schema(replies):
    """A reply without an answer, or with one against the schema, is asked for again."""
    REPLIES[:] = replies
    done = CliRunner().invoke(cli, ["-m", "fcshim/scripted", "--schema", json.dumps(CITY), "--no-stream", "Where?"])

    assert (0, {"city": "Oslo"}) == (done.exit_code, json.loads(done.output))
    assert "Rome" in str(SEEN[0])  # the prompt has the schema


def test_a_schema_and_tools_go_together():
    REPLIES[:] = [CALL, answered("Rome")]
    model = llm.get_model("fcshim/scripted")

    assert ["add_numbers"] == [
        call.name for call in model.prompt("Where?", tools=[add_numbers], schema=CITY).tool_calls()
    ]
    assert {"city": "Rome"} == json.loads(model.prompt("Where?", tools=[add_numbers], schema=CITY).text())


def test_an_answer_that_stays_against_its_schema_is_an_error():
    REPLIES[:] = [answered("Bonn")] * 4
    done = CliRunner().invoke(cli, ["-m", "fcshim/scripted", "--schema", json.dumps(CITY), "--no-stream", "Where?"])

    assert 0 != done.exit_code
    assert "city" in done.output + str(done.exception)


def test_a_real_model_answers_by_a_schema():
    schema = {"type": "object", "properties": {"first": {"type": "integer"}}, "required": ["first"]}
    text = llm.get_model("fcshim/tiny").prompt("call final_answer with first=19", schema=schema).text()

    assert {"first": 19} == json.loads(text)


def test_async_asks_for_a_schema():
    async def run():
        question = "call final_answer with city=Oslo"
        return await llm.get_async_model("fcshim/tiny").prompt(question, schema=CITY).text()

    assert {"city": "Oslo"} == json.loads(asyncio.run(run()))


def test_what_was_done_is_in_the_log():
    llm.get_model("fcshim/tiny").chain(QUESTION, tools=[add_numbers]).text()
    done = CliRunner().invoke(cli, ["-m", "fcshim/tiny", "--no-stream", "say hello"])
    log = json.loads(CliRunner().invoke(cli, ["logs", "list", "--json"]).output)

    assert 0 == done.exit_code
    assert "fcshim/fcshim-tiny" == log[0]["model"]


def test_nothing_large_is_imported_with_the_plugin():
    program = "import sys, fcshim.integrations.llm; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert not {"aiohttp", "httpx_aiohttp", "fcshim.client", "fcshim.sync_client"} & set(modules)
