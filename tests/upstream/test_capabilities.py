"""What an upstream claims about its models, and what overrides the claim."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import Config
from fcshim.errors import UpstreamError
from fcshim.messages import Request, TextPart, Tool, ToolChoice, UserMessage
from fcshim.pipeline.omissions import OMISSIONS
from fcshim.upstream import Upstream
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.model_report import model_reports
from tests.scripted import Script, scripted_upstream


def page(value, status=200):
    return Script((json.dumps(value).encode(),), status=status)


def required(model):
    hello = UserMessage((TextPart("Hi"),))
    return Request(model=model, messages=(hello,), tools=(Tool("add"),), tool_choice=ToolChoice("required"))


async def test_each_model_of_llama_swap_has_the_backend_of_its_own_server():
    listed = page({"data": [{"id": "a/b", "owned_by": "llama-swap"}, {"id": "c", "owned_by": "llama-swap"}]})
    props = page({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1})
    pages = {"/v1/models": listed, "/props?model=a%2Fb": props}
    async with scripted_upstream(pages=pages) as upstream, Upstream(upstream.url) as endpoint:
        capabilities = Capabilities(endpoint)
        names = [(await capabilities.backend(required(name))).name for name in ("a/b", "a/b", "c")]

    assert ["llama-server", "llama-server", "llama-swap"] == names
    assert ["/v1/models", "/props?model=a%2Fb", "/props?model=c"] == upstream.page_paths


@pytest.mark.parametrize(
    "listed",
    [{"id": "m", "owned_by": "llama-swap"}, {"id": "m", "owned_by": "llamacpp", "status": {"value": "unloaded"}}],
)
async def test_no_report_makes_a_server_load_its_models(listed):
    async with (
        scripted_upstream(pages={"/v1/models": page({"data": [listed]})}) as upstream,
        Upstream(upstream.url) as endpoint,
    ):
        (report,) = await model_reports(Config(upstream=upstream.url, tools="auto"), Capabilities(endpoint))

    assert ("m", "auto", ["/v1/models"]) == (report.model, report.tools, upstream.page_paths)


@pytest.mark.parametrize(
    ("kind", "path", "listed"),
    [
        ("openai", "/v1/models", {"data": [{"id": "a"}]}),
        ("anthropic", "/v1/models", {"data": [{"id": "a"}]}),
        ("gemini", "/v1beta/models", {"models": [{"name": "models/a"}]}),
        ("ollama", "/api/tags", {"models": [{"name": "a", "model": "a"}]}),
    ],
)
async def test_models_are_listed_as_each_api_lists_them(kind, path, listed):
    async with (
        scripted_upstream(page(listed), page({"error": {"message": "no"}}, 500)) as upstream,
        Upstream(upstream.url, kind=UPSTREAMS[kind]) as endpoint,
    ):
        names, _ = await endpoint.list_models()
        with pytest.raises(UpstreamError):
            await endpoint.list_models()

    assert ["a"] == names
    assert path == upstream.requests[0].path
    assert ("anthropic-version" in upstream.requests[0].headers) == (kind == "anthropic")


async def test_what_was_not_stated_is_asked_for_again_after_an_hour():
    now = 0.0
    omissions = {row.name: row for row in OMISSIONS}
    async with Upstream("http://127.0.0.1:1") as endpoint:
        capabilities = Capabilities(endpoint, clock=lambda: now)
        capabilities.record_omissions("m", [omissions["images"], omissions["stop"]])
        capabilities.tools.record_error("m", "out of memory")

        def found():
            left_out = {omission.name for omission in capabilities.omissions("m")}
            return left_out, capabilities.tools.choose("m", Config(tools="auto").for_model("m")).reason

        assert ({"images", "stop"}, "a server error with tools: out of memory") == found()
        now = 3_601.0
        assert ({"stop"}, "its server does not say that it supports tools") == found()
