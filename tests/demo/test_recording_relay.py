import httpx

from fcshim.demo.endpoint import ChatEndpoint
from fcshim.demo.generation import Engine
from fcshim.demo.recording_relay import RecordingRelay
from fcshim.demo.serving import serve_app

SAY = {"messages": [{"role": "user", "content": "say rain"}], "stream": True}


async def test_bytes_are_relayed_and_recorded(engine: Engine) -> None:
    async with serve_app(ChatEndpoint(engine)) as model, httpx.AsyncClient(trust_env=False) as client:
        relay = RecordingRelay(client, model)
        async with serve_app(relay) as relay_url:
            answers = [await client.post(f"{url}/v1/chat/completions", json=SAY) for url in (model, relay_url)]
            health = await client.get(f"{relay_url}/health")
            elsewhere = await client.post(f"{relay_url}/tokenize", json={"content": "a"})

    assert [answer.text.count("data: ") for answer in answers] == [answers[0].text.count("data: ")] * 2
    assert answers[1].headers["content-type"] == "text/event-stream"
    assert health.json() == {"status": "ok"}
    assert elsewhere.status_code == 404
    assert [(record.messages, record.text) for record in relay.records] == [([("user", "say rain")], "rain")]
