"""Arbitrary client requests: each is read and can be written for every upstream, or is rejected with `RequestError`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.routes import CODECS, find_route
from fcshim.errors import RequestError
from fcshim.messages import Request
from fcshim.pipeline.shim import prepare_shim
from tests.codecs.test_pairs import REQUEST

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
ARBITRARY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "user", "tool", "function", "text", "add", "call_1", "{", "\u2028", "auto", "x" * 200]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "name", "content"]), inner),
    max_leaves=6,
)


def valid_request(codec):
    """Return a valid request body of this API and its request target."""
    outgoing = codec.encode_request(REQUEST)
    address, _, query = outgoing.path.partition("?")
    path = address[1:] if address.startswith("//") else "/v1" + address
    found = find_route("POST", path, [name for name, _ in outgoing.headers])
    return json.loads(outgoing.body), found.make_target(path, query.encode())


def value_paths(value, at=()):
    """Yield the path of every value in a document."""
    yield at
    inner = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, child in inner:
        yield from value_paths(child, (*at, key))


def with_value_at(value, at, new):
    """Return the document with another value at that path; `...` removes the value."""
    if not at:
        return new
    copied = value.copy()
    if len(at) == 1 and new is ...:
        del copied[at[0]]
    else:
        copied[at[0]] = with_value_at(value[at[0]], at[1:], new)
    return copied


def process_request(codec, body, target=RequestTarget()):  # noqa: B008  # frozen
    """Read a body, and write the request for every upstream, with native tools and with tools in the prompt."""
    try:
        request = codec.decode_request(body, target)
        for upstream in CODECS.values():
            upstream.encode_request(request)
        prepare_shim(request)
    except RequestError as error:
        return error
    return request


@APIS
@given(data=st.data())
def test_a_request_with_arbitrary_values_is_read_or_rejected(codec, data):
    document, target = valid_request(codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(sorted(value_paths(document), key=str)))
        document = with_value_at(document, at, data.draw(ARBITRARY_JSON | st.just(...)) if at else document)
    found = process_request(codec, json.dumps(document).encode(), target)

    assert isinstance(found, Request) or found.message


@APIS
@given(ARBITRARY_JSON)
def test_an_arbitrary_document_is_read_or_rejected(codec, document):
    _, target = valid_request(codec)

    assert process_request(codec, json.dumps(document).encode(), target) is not None


@APIS
@given(st.binary(max_size=50))
def test_arbitrary_bytes_are_read_or_rejected(codec, body):
    assert process_request(codec, body) is not None


@APIS
def test_the_valid_request_is_read(codec):
    document, target = valid_request(codec)

    assert isinstance(process_request(codec, json.dumps(document).encode(), target), Request)


@given(st.lists(ARBITRARY_JSON, max_size=4), ARBITRARY_JSON)
def test_arbitrary_items_and_previous_response_are_read_or_rejected(items, previous):
    body = {"model": "m", "input": [{"role": "user", "content": "x"}, *items], "previous_response_id": previous}
    found = process_request(CODECS["openai_responses"], json.dumps(body).encode(), RequestTarget())

    assert isinstance(found, Request) or found.message
