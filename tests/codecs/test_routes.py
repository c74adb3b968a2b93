"""Which API and operation serve which path."""

import pytest

from fcshim.codecs.routes import APIS, CODECS, OPENAI, RouteMatch, expected_path, find_route


def test_every_api_has_a_codec_of_its_own_name():
    assert len(APIS) == len(CODECS)
    assert all(api.codec is CODECS[api.codec.name] for api in APIS)


def test_path_and_method_give_api_and_operation():
    assert RouteMatch(OPENAI, "reply", {}, ()) == find_route("POST", "/v1/chat/completions")


def test_an_unserved_method_lists_the_allowed_ones_and_an_unknown_path_none():
    assert ("POST",) == find_route("GET", "/v1/chat/completions").allowed_methods
    assert RouteMatch(OPENAI, None, {}, ()) == find_route("GET", "/v1/nothing")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/v1/models", "/v1/models"),
        ("/v1/api/chat", "/api/chat"),
        ("/v1/v1beta/models/m:generateContent", "/v1beta/models/m:generateContent"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/messages", "/v1/messages"),
        ("/v1/embeddings", ""),
        ("/v1/files/f-1", ""),
        ("/v1/responses/compact", ""),
        ("/nothing", ""),
    ],
)
def test_a_wrong_base_url_shows_in_the_path(path, expected):
    assert expected == expected_path(path)


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/projects/p/locations/eu/publishers/google/models/gemini-3:generateContent", "reply"),
        ("/v1beta1/projects/p/locations/eu/endpoints/7/models/m:streamGenerateContent", "reply"),
        ("/v1/projects/p/locations/eu/publishers/google/models/m:countTokens", "count"),
    ],
)
def test_paths_of_vertex_ai_are_those_of_gemini(path, operation):
    found = find_route("POST", path)

    assert ("gemini", operation) == (found.api.codec.name, found.operation)
    assert path.rpartition("/")[2].partition(":")[0] == found.path_params["model"]


def test_no_response_has_the_name_of_an_operation():
    assert "reply" == find_route("POST", "/v1/responses/compact").operation
    assert ("POST",) == find_route("GET", "/v1/responses/compact").allowed_methods
    assert ("POST",) == find_route("GET", "/v1/responses/input_tokens").allowed_methods


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.codec.name)
def test_every_operation_has_an_implementation(api):
    needed = {
        "count": api.counter,
        "models": api.catalogue,
        "model": api.catalogue,
        "describe": api.describer,
        "local": api.local,
    }

    assert all(needed.get(route.operation, api) is not None for route in api.routes)


@pytest.mark.parametrize(
    ("api", "route"), [(api, route) for api in APIS for route in api.routes], ids=lambda each: getattr(each, "path", "")
)
def test_every_route_is_found_by_its_own_path(api, route):
    path = route.path.replace("{version}", "v1").replace("{beta}", "v1beta1").replace("{model}", "some/model:8b")
    found = find_route(route.method, path, route.headers[:1])

    assert (api, route.operation) == (found.api, found.operation)
    assert found.path_params.get("model", "some/model:8b") == "some/model:8b"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data":{}}', b'{"models":[{}]}', b"[" * 5000])
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_body_that_is_no_list_of_models_has_no_names(codec, body):
    assert [] == codec.decode_models(body)


@pytest.mark.parametrize(
    ("path", "headers", "api"),
    [
        ("/v1/messages/batches", (), "anthropic"),
        ("/v1/files", (b"anthropic-version",), "anthropic"),
        ("/v1beta/files", (), "gemini"),
        ("/v1/files", (b"x-goog-api-key",), "gemini"),
        ("/api/pull", (), "ollama"),
        ("/v1/files", (), "openai_chat"),
    ],
)
def test_errors_of_unknown_paths_have_the_form_of_the_clients_api(path, headers, api):
    found = find_route("PATCH", path, headers)

    assert found.operation is None
    assert api == found.api.codec.name
