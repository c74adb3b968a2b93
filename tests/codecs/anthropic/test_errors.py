"""Errors in the API's form."""

import json

import pytest

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.errors import FcshimError, RequestError, UpstreamError


def written(error):
    return json.loads(ANTHROPIC.encode_error(error))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RequestError("no"), "invalid_request_error"),
        (RequestError("no", status=401), "authentication_error"),
        (RequestError("no", status=403), "permission_error"),
        (RequestError("no", status=404), "not_found_error"),
        (RequestError("no", status=413), "request_too_large"),
        (RequestError("no", status=431), "invalid_request_error"),
        (UpstreamError("no", status=429), "rate_limit_error"),
        (UpstreamError("no"), "api_error"),
        (UpstreamError("no", status=503), "overloaded_error"),
        (UpstreamError("no", status=504), "timeout_error"),
        (FcshimError("no"), "api_error"),
    ],
)
def test_the_type_follows_from_the_status(error, kind):
    assert {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": None} == written(error)


def test_a_too_long_prompt_has_the_wording_that_clients_match():
    error = ANTHROPIC.decode_error(400, {}, b'{"error":{"message":"exceeds the available context size"}}')

    assert "invalid_request_error" == written(error)["error"]["type"]
    assert written(error)["error"]["message"].startswith("prompt is too long: ")


def test_an_error_in_a_stream_is_an_event():
    assert ANTHROPIC.encode_stream_error(UpstreamError("no")).startswith(b"event: error\ndata: {")
