"""`tools = "auto"`: the first evidence about a model chooses between native tools and the prompt."""

import contextlib
import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import Config
from fcshim.errors import UpstreamError
from fcshim.messages import Request, TextPart, Tool, UserMessage
from fcshim.upstream import Upstream
from fcshim.upstream.capabilities import Capabilities, refuses_tools
from fcshim.upstream.measured import MeasuredModel, save_measured
from fcshim.upstream.model_identity import identify
from fcshim.upstream.model_report import model_reports
from tests.scripted import Script, scripted_upstream, text_reply

AUTO = Config().for_model("m")
CLAIMS, CLAIMS_NOT = {"chat_template": "{% if tools %}"}, {"chat_template": "{{ messages }}"}
HERMES_CALL = '<tool_call>\n{"name": "lookup_time", "arguments": {"city": "Lima"}}\n</tool_call>'
PAST_CALL = f"Sample question.<|im_end|>\n{HERMES_CALL}<|im_end|>\nSample result."
WRITTEN, OTHER = text_reply(HERMES_CALL), text_reply('```json\n{"name": "lookup_time"}\n```')

pytestmark = pytest.mark.model_pages


def page(value, status=200):
    return Script((json.dumps(value).encode(),), status=status)


@contextlib.asynccontextmanager
async def capabilities_of(
    *, kind="openai", props=None, owner="llamacpp", past_call="", trial=None, show=None, measured=None
):
    """Serve one model; `trial` is its reply when it is shown its template's dialect, `measured` its settings."""
    listed = page({"data": [{"id": "m", "owned_by": owner}], "models": [{"name": "m", "model": "m"}]})
    pages = {"/v1/models": listed, "/api/tags": listed, "/apply-template": page({"prompt": past_call})}
    if show is not None:
        pages["/api/show"] = page(show)
    if props is not None:
        pages["/props?model=m"] = page({"default_generation_settings": {}, "model_path": "m.gguf", **props})
    async with (
        scripted_upstream(*([] if trial is None else [trial]), pages=pages) as upstream,
        Upstream(upstream.url, kind=UPSTREAMS[kind]) as endpoint,
    ):
        capabilities = Capabilities(endpoint)
        if measured is not None:
            key = (await identify(endpoint, "m")).key
            found = MeasuredModel(model="m", settings=measured, reason="best", date="2026-11-24", complete=True)
            save_measured(key, found)
        await capabilities.models.resolve(AUTO, "m")  # as every request with tools does first
        yield capabilities


def choice(capabilities, model=AUTO):
    found = capabilities.tools.choose("m", model)
    return found.native, found.reason


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        (CLAIMS, True),
        (CLAIMS_NOT, False),
        ({**CLAIMS, "chat_template_caps": {"supports_tools": False}}, False),
        ({**CLAIMS_NOT, "chat_template_caps": {"supports_tools": True}}, True),
    ],
)
async def test_llama_servers_template_is_its_claim(props, expected):
    async with capabilities_of(props=props) as capabilities:
        native, reason = choice(capabilities)

    assert expected == native
    assert reason.startswith("its server supports" if expected else "its server does not support")


@pytest.mark.parametrize(("names", "expected"), [(["completion", "tools"], True), (["completion"], False)])
async def test_ollamas_capabilities_are_its_claim(names, expected):
    show = {"modelfile": "FROM m", "template": "{{ .Prompt }}", "capabilities": names}
    async with capabilities_of(kind="ollama", show=show) as capabilities:
        assert expected == choice(capabilities)[0]


async def test_a_server_that_says_nothing_gets_the_prompt():
    async with capabilities_of(owner="me") as capabilities:
        assert (False, "its server does not say that it supports tools") == choice(capabilities)


async def test_an_unreachable_server_gets_the_prompt():
    async with Upstream("http://127.0.0.1:9") as away:
        assert not choice(Capabilities(away))[0]


@pytest.mark.parametrize("owner", ["vllm", "sglang", "organization_owner"])
async def test_a_server_that_never_ignores_tools_gets_them(owner):
    async with capabilities_of(owner=owner) as capabilities:
        assert choice(capabilities)[0]


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "responses"])
async def test_a_providers_api_is_never_asked(kind):
    async with scripted_upstream() as upstream, Upstream(upstream.url, kind=UPSTREAMS[kind]) as endpoint:
        capabilities = Capabilities(endpoint)
        await capabilities.models.resolve(AUTO, "m")

        assert (True, "its API") == choice(capabilities)
        assert [] == upstream.requests


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com", True),
        ("http://api.openai.com", False),
        ("https://127.0.0.1:8443", False),
        ("https://localhost:8443", False),
        ("https://gpu.internal", False),
    ],
)
async def test_a_service_on_the_internet_that_says_nothing_gets_native_tools(url, expected):
    async with Upstream(url) as endpoint:
        assert expected == choice(Capabilities(endpoint))[0]


@pytest.mark.parametrize(("trial", "expected"), [(WRITTEN, True), (OTHER, False), (text_reply("Lima is far."), True)])
async def test_a_model_that_does_not_write_its_templates_marker_gets_the_prompt(trial, expected):
    async with capabilities_of(props=CLAIMS, past_call=PAST_CALL, trial=trial) as capabilities:
        native, reason = choice(capabilities)

    assert expected == native
    assert expected or reason == "a trial: it does not write its template's <tool_call>"


async def test_what_its_replies_show_counts_before_the_trial():
    async with capabilities_of(props=CLAIMS, past_call=PAST_CALL, trial=OTHER) as capabilities:
        capabilities.tools.observer("m")("")

        assert (True, "its replies: its server has read a call") == choice(capabilities)


async def test_a_failure_counts_for_every_name_of_the_model():
    async with capabilities_of(props=CLAIMS) as capabilities:
        capabilities.tools.observer("gpt-4o")("it leaves calls in the text")

        assert (False, "its replies: it leaves calls in the text") == choice(capabilities)


async def test_a_failure_after_a_call_is_the_models_own():
    async with capabilities_of(props=CLAIMS) as capabilities:
        observe = capabilities.tools.observer("m")
        observe("")
        observe("it leaves calls in the text")

        assert choice(capabilities)[0]


@pytest.mark.parametrize(
    ("measured", "props", "failure"),
    [
        ({"tools": "native"}, CLAIMS_NOT, "it leaves calls in the text"),
        ({"tools": "prompt", "dialect": "hermes"}, CLAIMS, ""),
    ],
)
async def test_a_measurement_counts_before_replies_and_claims(measured, props, failure):
    async with capabilities_of(props=props, measured=measured) as capabilities:
        capabilities.tools.observer("m")(failure)

        assert (measured["tools"] == "native", "a measurement") == choice(capabilities)


async def test_a_refusal_counts_before_everything():
    async with capabilities_of(props=CLAIMS) as capabilities:
        capabilities.tools.observer("m")("")
        capabilities.tools.record_refusal("m", "tools param requires --jinja flag")

        assert (False, "a refusal: tools param requires --jinja flag") == choice(capabilities)


@pytest.mark.parametrize(
    "settings", [{"tools": "prompt"}, {"dialect": "hermes"}, {"max_tools": 8}, {"arguments": "validated"}]
)
async def test_the_operators_settings_count_first(settings):
    async with capabilities_of(props=CLAIMS) as capabilities:
        assert (False, "the settings") == choice(capabilities, Config(**settings).for_model("m"))


async def test_native_tools_that_are_set_are_not_questioned():
    async with capabilities_of(props=CLAIMS_NOT) as capabilities:
        assert (True, "the settings") == choice(capabilities, Config(tools="native").for_model("m"))


async def test_a_request_without_tools_needs_no_choice():
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),))
    with_tools = Request(model="m", messages=request.messages, tools=(Tool("add"),))
    async with capabilities_of(props=CLAIMS) as capabilities:
        assert [False, True] == [
            capabilities.tools.uses_native(request, AUTO),
            capabilities.tools.uses_native(with_tools, AUTO),
        ]


async def test_the_report_names_the_choice_and_its_reason():
    listed = page({"data": [{"id": "m", "owned_by": "llamacpp"}]})
    props = page({"default_generation_settings": {}, **CLAIMS})
    async with (
        scripted_upstream(pages={"/v1/models": listed, "/props?model=m": props}) as upstream,
        Upstream(upstream.url) as endpoint,
    ):
        (report,) = await model_reports(Config(), Capabilities(endpoint))

    assert ("native", "its server supports tools for it") == (report.tools, report.tools_reason)


@pytest.mark.parametrize(
    ("message", "status", "kind", "expected"),
    [
        ("tools param requires --jinja flag", 502, None, True),
        ('"auto" tool choice requires --enable-auto-tool-choice', 400, None, True),
        ("registry.ollama.ai/library/gemma:2b does not support tools", 400, None, True),
        ("unknown field: tool_choice", 400, None, True),
        ("function calling is not enabled", 400, None, True),
        ("temperature must be below 2", 400, None, False),
        ("too many tools", 429, None, False),
        ("the prompt with its tools is too long", 400, "context_length_exceeded", False),
        ("no such model", 404, None, False),
    ],
)
def test_an_error_that_refuses_tools_is_recognised(message, status, kind, expected):
    assert expected == refuses_tools(UpstreamError(message, status=status, kind=kind))
