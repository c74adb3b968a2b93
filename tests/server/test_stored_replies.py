"""The stored replies of the Responses API belong to the key that made them."""

import pytest

from fcshim.config import Secret
from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import http_client, running_proxy

pytestmark = pytest.mark.security

KEYS = {"api_keys": (Secret("key-of-alice"), Secret("key-of-bob"))}
ALICE = {"Authorization": "Bearer key-of-alice"}
BOB = {"Authorization": "Bearer key-of-bob"}
PATH = "/v1/responses"


def body(text, **fields):
    return {"model": "m", "input": text, **fields}


def message(item_id, text):
    return {"type": "message", "role": "user", "id": item_id, "content": text}


async def test_no_way_leads_to_the_reply_of_another_key():
    scripts = [text_reply(text) for text in ("alice's secret", *"abcde")]
    async with (
        scripted_upstream(*scripts) as upstream,
        running_proxy(upstream.url, **KEYS) as url,
        http_client(url) as client,
    ):
        made = (await client.post(PATH, json=body("Hi"), headers=ALICE)).json()
        name, item = made["id"], made["output"][0]["id"]
        refused = [
            await client.get(f"{PATH}/{name}", headers=BOB),
            await client.get(f"{PATH}/{name}/input_items", headers=BOB),
            await client.delete(f"{PATH}/{name}", headers=BOB),
            await client.post(PATH, json=body("And?", previous_response_id=name), headers=BOB),
            await client.post(f"{PATH}/input_tokens", json=body("And?", previous_response_id=name), headers=BOB),
        ]
        reference = body([{"type": "item_reference", "id": item}, message("m", "And?")])
        await client.post(PATH, json=reference, headers=BOB)
        seen_by_bob = str(upstream.requests[-1].body)
        still_there = await client.get(f"{PATH}/{name}", headers=ALICE)
        await client.post(PATH, json=reference, headers=ALICE)
        seen_by_alice = str(upstream.requests[-1].body)

    assert [404, 404, 404, 400, 400] == [response.status_code for response in refused]
    assert "secret" not in "".join(response.text for response in refused) + seen_by_bob
    assert 200 == still_there.status_code
    assert "alice's secret" in seen_by_alice


async def test_ids_that_clients_choose_do_not_collide():
    async with (
        scripted_upstream(*map(text_reply, "abcd")) as upstream,
        running_proxy(upstream.url, **KEYS) as url,
        http_client(url) as client,
    ):
        await client.post(PATH, json=body([message("msg_1", "text of alice")]), headers=ALICE)
        await client.post(PATH, json=body([message("msg_1", "text of bob")]), headers=BOB)
        reference = body([{"type": "item_reference", "id": "msg_1"}, message("x", "And?")])
        await client.post(PATH, json=reference, headers=ALICE)
        to_alice = str(upstream.requests[-1].body)
        await client.post(PATH, json=reference, headers=BOB)
        to_bob = str(upstream.requests[-1].body)

    assert ("text of alice" in to_alice, "text of bob" in to_alice) == (True, False)
    assert ("text of alice" in to_bob, "text of bob" in to_bob) == (False, True)


@pytest.mark.parametrize("keys", [KEYS, {}], ids=["keys", "open"])
async def test_one_key_finds_its_replies_in_every_header(keys):
    async with (
        scripted_upstream(*map(text_reply, "ab")) as upstream,
        running_proxy(upstream.url, **keys) as url,
        http_client(url) as client,
    ):
        name = (await client.post(PATH, json=body("Hi"), headers=ALICE)).json()["id"]
        headers = {"x-api-key": "key-of-alice"}
        found = await client.get(f"{PATH}/{name}", headers=headers)
        continued = await client.post(PATH, json=body("And?", previous_response_id=name), headers=headers)
        deleted = await client.delete(f"{PATH}/{name}", headers=headers)
        gone = await client.get(f"{PATH}/{name}", headers=headers)

    assert [200, 200, 200, 404] == [each.status_code for each in (found, continued, deleted, gone)]
    assert "Hi" in str(upstream.requests[-1].body)


async def test_a_request_of_unknown_items_alone_is_an_error_of_the_client():
    async with (
        scripted_upstream(text_reply("a")) as upstream,
        running_proxy(upstream.url, **KEYS) as url,
        http_client(url) as client,
    ):
        made = (await client.post(PATH, json=body("Hi"), headers=ALICE)).json()
        items = [[{"type": "item_reference", "id": name}] for name in (made["output"][0]["id"], "msg_x", "a:b", "\x00")]
        answers = [await client.post(PATH, json=body(each), headers=BOB) for each in items]

    assert [400] * 4 == [each.status_code for each in answers]
    assert all("refers to" in each.json()["error"]["message"] for each in answers)
    assert 1 == len(upstream.requests)
