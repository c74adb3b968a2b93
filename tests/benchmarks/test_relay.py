"""The relay: it changes nothing, and records what the model writes."""

import httpx

from benchmarks.models.relay import RawReply, serve_relay
from tests.scripted import Script, end_chunks, event, model_list, scripted_upstream, text_chunk

TIMINGS = event(choices=[], timings={"prompt_n": 7, "cache_n": 30, "predicted_n": 4})


async def relayed(script, path="/v1/chat/completions"):
    """Return the bytes that the client gets, and what the relay recorded."""
    async with (
        scripted_upstream(script, listing=model_list("m")) as upstream,
        serve_relay(upstream.url + "/") as (relay, url),
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        response = await client.post(path, json={"stream": True})
        return response.content, relay.take(), relay.take()


async def test_the_text_and_the_tokens_of_each_attempt_are_recorded_once():
    pieces = (text_chunk("Hel"), text_chunk("lo"), TIMINGS, end_chunks())
    data, recorded, rest = await relayed(Script(pieces))

    assert b"".join(pieces) == data
    assert (RawReply(text="Hello", prompt_tokens=37, completion_tokens=4),) == recorded
    assert () == rest


async def test_calls_that_the_server_has_parsed_are_recorded():
    deltas = [{"function": {"name": "add", "arguments": '{"a"'}}, {"function": {"arguments": ": 1}"}}]
    pieces = [event(choices=[{"delta": {"tool_calls": [delta]}}]) for delta in deltas]
    _, (recorded,), _ = await relayed(Script((*pieces, end_chunks())))

    assert ("", 'add{"a": 1}') == (recorded.text, recorded.calls)


async def test_pages_about_the_model_are_no_attempts():
    data, recorded, _ = await relayed(Script((b'{"prompt": "x"}',)), "/apply-template")

    assert (b'{"prompt": "x"}', ()) == (data, recorded)
