"""What the tests share about holding a model to calls: a server that says what it is, one that refuses, a call."""

import json

from fcshim import Client
from tests.scripted import Script, ScriptedUpstream, event

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>'
GRAMMAR_REFUSED = Script(
    (b'{"error":{"code":400,"message":"failed to parse grammar","type":"invalid_request_error"}}',), 400
)


def owned_model_list(owner: str) -> Script:
    """Make the script of a list with one model, which says whose it is."""
    return Script((json.dumps({"object": "list", "data": [{"id": "m", "owned_by": owner}]}).encode(),))


def prompt_reply(prompt: str) -> Script:
    """Make the script of a prompt that llama-server's `/apply-template` has written."""
    return Script((json.dumps({"prompt": prompt}).encode(),))


def completion_reply(*texts: str, stop_type: str = "eos") -> Script:
    """Make the script of a reply of its `/completion`."""
    pieces = [event(index=0, content=text, tokens=[7], stop=False, tokens_predicted=1) for text in texts]
    counts = {"tokens_evaluated": 20, "tokens_predicted": 7, "timings": {"cache_n": 15}}
    return Script((*pieces, event(content="", stop=True, stop_type=stop_type, stopping_word="", **counts)))


def make_client(upstream: ScriptedUpstream, **settings) -> Client:
    """Make a client for that model."""
    return Client(upstream.url, model="m", **settings)
