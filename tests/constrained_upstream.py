"""Scripted upstreams for tests of constrained calls: a server that reports its kind, one that refuses, a reply."""

import json

from fcshim import Client
from tests.scripted import Script, ScriptedUpstream, event

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>'
GRAMMAR_REFUSED = Script(
    (b'{"error":{"code":400,"message":"failed to parse grammar","type":"invalid_request_error"}}',), 400
)


def owned_model_list(owner: str) -> Script:
    """Return the script of a model list with one model of this owner."""
    return Script((json.dumps({"object": "list", "data": [{"id": "m", "owned_by": owner}]}).encode(),))


def prompt_reply(prompt: str) -> Script:
    """Return the script of a prompt from llama-server's `/apply-template`."""
    return Script((json.dumps({"prompt": prompt}).encode(),))


def completion_reply(*texts: str, stop_type: str = "eos") -> Script:
    """Return the script of a streamed reply from llama-server's `/completion`."""
    pieces = [event(index=0, content=text, tokens=[7], stop=False, tokens_predicted=1) for text in texts]
    counts = {"tokens_evaluated": 20, "tokens_predicted": 7, "timings": {"cache_n": 15}}
    return Script((*pieces, event(content="", stop=True, stop_type=stop_type, stopping_word="", **counts)))


def make_client(upstream: ScriptedUpstream, **settings) -> Client:
    """Create a client for the model `m` of this upstream."""
    return Client(upstream.url, model="m", **settings)
