"""Checks that requests upstream use only text, whatever the client's API."""

import itertools

from tests.scripted import ScriptedUpstream

KNOWN = {"model", "messages", "stream", "stream_options", "max_tokens", "temperature", "top_p", "stop", "seed"}


def check_text_only(upstream: ScriptedUpstream) -> list[dict]:
    """Return the bodies of the chats that the upstream got; assert that an endpoint without tools accepts each."""
    bodies = [asked.body for asked in upstream.requests if asked.path.endswith("/chat/completions")]
    for body in bodies:
        assert set(body) <= KNOWN
        assert body["stream"] is True
        roles = [message["role"] for message in body["messages"]]
        assert set(roles) <= {"system", "user", "assistant"}
        assert all(isinstance(message["content"], str) for message in body["messages"])
        assert all(first != second for first, second in itertools.pairwise(roles))
    assert all("tool" not in name for asked in upstream.requests for name in asked.body)
    return bodies
