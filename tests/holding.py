"""What the tests share about holding a model to calls: a server that says what it is, one that refuses, a call."""

import json

from fcshim import Client
from tests.scripted import Script, ScriptedUpstream

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>'
REFUSED = Script((b'{"error":{"code":400,"message":"failed to parse grammar","type":"invalid_request_error"}}',), 400)


def owned(owner: str) -> Script:
    """Make the script of a list with one model, which says whose it is."""
    return Script((json.dumps({"object": "list", "data": [{"id": "m", "owned_by": owner}]}).encode(),))


def client_of(upstream: ScriptedUpstream, **settings) -> Client:
    """Make a client for that model."""
    return Client(upstream.url, model="m", **settings)
