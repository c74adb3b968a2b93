"""Calls in a custom dialect are constrained, or it is said that they cannot be."""

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.call_template import call_template_of
from fcshim.constrain.constraint import dialect_note
from fcshim.errors import RequestError
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS
from fcshim.pipeline.backends import get_backend
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.dialect_folder import load_dialect
from tests.constrain import schemas
from tests.constrain.test_calls import check_sampled_reply
from tests.constrained_upstream import CALL, make_client, owned_model_list
from tests.examples import examples
from tests.prompt.custom_dialects import SOUND, make_folder
from tests.scripted import scripted_upstream, text_reply

ENCODED = "json_encoded_arguments"
"""Its arguments are JSON in a JSON string, which no grammar describes."""
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}}
NOTE = f"calls in the dialect {ENCODED!r} cannot be constrained: its templates do not show how values are written"


@pytest.mark.parametrize("name", sorted(SOUND.keys() - {ENCODED}))
@examples(3)
@given(drawn=st.dictionaries(schemas.names, schemas.arguments, min_size=1, max_size=2), seed=st.integers(0, 2**32))
def test_sampled_replies_of_custom_dialects_are_parsed_as_valid_calls(name: str, drawn: object, seed: int) -> None:
    with TemporaryDirectory() as folder:
        check_sampled_reply(load_dialect(make_folder(Path(folder) / name, SOUND[name])), drawn, seed)


def test_every_bundled_dialect_without_a_note_can_be_constrained() -> None:
    notes = {dialect.name for dialect in DIALECTS.values() if dialect_note(dialect)}

    assert notes == {"cline"}  # its tags are named after tools and parameters


def test_a_dialect_without_a_grammar_is_noted_where_a_constraint_is_wanted(tmp_path: Path) -> None:
    dialect = load_dialect(make_folder(tmp_path / ENCODED, SOUND[ENCODED]))
    tools, required = (Tool("add"),), ToolChoice("required")

    def notes(backend: str, choice: ToolChoice = required) -> tuple[str, ...]:
        request = Request(model="m", messages=(), tools=tools, tool_choice=choice)
        return prepare_shim(request, dialect=dialect, backend=get_backend(backend)).notes

    assert call_template_of(dialect) is None
    assert (NOTE,) == notes("llama-server") == notes("vllm") == notes("llama-server-eager", ToolChoice("auto"))
    assert () == notes("generic") == notes("llama-server", ToolChoice("auto"))
    assert () == notes("ollama")  # calls are requested as bare JSON


@pytest.mark.parametrize("server", ["llama-server", "vllm"])
async def test_a_setting_that_demands_a_constraint_makes_a_required_call_an_error(tmp_path: Path, server: str) -> None:
    folder = make_folder(tmp_path / ENCODED, SOUND[ENCODED])
    async with (
        scripted_upstream(text_reply("Hi")) as upstream,
        make_client(upstream, dialect=str(folder), constrain=server) as client,
    ):
        with pytest.raises(RequestError, match=r"tool_choice: calls in the dialect .* cannot be constrained"):
            await client.complete("Hi", [ADD], tool_choice="required")
        reply = await client.complete("Hi", [ADD])

    assert "Hi" == reply.text


async def test_a_detected_server_gets_the_required_call_unconstrained_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_folder(tmp_path / ENCODED, SOUND[ENCODED])
    call = CALL.replace("function_call", "my_call")
    async with (
        scripted_upstream(owned_model_list("llamacpp"), text_reply(call)) as upstream,
        make_client(upstream, dialect=str(folder)) as client,
    ):
        with caplog.at_level(logging.INFO, "fcshim"):
            reply = await client.complete("Hi", [ADD], tool_choice="required")

    assert ["add"] == [end.tool_call_name for end in reply.tool_calls]
    assert "grammar" not in upstream.requests[1].body
    assert f"m: {NOTE}" in caplog.messages
