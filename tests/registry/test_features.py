"""What the servers offer beside plain calls: every kind of content, resources, prompts, questions, older protocols."""

import asyncio
import base64

import pytest

from fcshim.mcp.config_file import read_servers
from fcshim.mcp.resources import ServerOffers, resource_bytes
from fcshim.mcp.server_requests import elicitation_callback, sampling_callback
from fcshim.messages import MediaPart, TextPart
from fcshim.reply import Reply
from fcshim.tools.base import CallContext
from tests.mcp.server_programs import manager


def config(name, entry):
    (server,) = read_servers({"mcpServers": {name: entry}}, {})
    return server


@pytest.fixture
def everything(entries):
    return config("e", entries("everything"))


async def test_content_of_every_kind_is_kept(everything):
    async with manager(everything) as servers:
        picture = await servers.call("e:get-tiny-image", {})
        structured = await servers.call("e:get-structured-content", {"location": "Chicago"})
        links = await servers.call("e:get-resource-links", {"count": 2})
        embedded = await servers.call("e:get-resource-reference", {"resourceType": "Text", "resourceId": 1})
        annotated = await servers.call("e:get-annotated-message", {"messageType": "error"})
        gzipped = await servers.call("e:gzip-file-as-resource", {"data": "data:text/plain,x", "outputType": "resource"})

    (image,) = [part for part in picture.content if isinstance(part, MediaPart)]
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    assert 1 == structured.text.count("humidity")
    assert "humidity" in structured.structured
    assert 2 == links.text.count("[Resource: demo://")
    assert "[Resource: demo://resource/dynamic/text/1]" in embedded.text
    assert "Error" in annotated.text
    assert "bytes)" in gzipped.text


async def test_progress_is_reported(everything):
    done = []
    async with manager(everything) as servers:
        context = CallContext(report=lambda progress: done.append((progress.done, progress.total)))
        await servers.call("e:trigger-long-running-operation", {"duration": 0.2, "steps": 2}, context)

    assert (2, 2) in done


async def test_resources_are_listed_and_read(everything):
    async with manager(everything) as servers:
        offers = ServerOffers(servers)
        listed = {each.uri for each in await offers.resources("e")}
        (document,) = await offers.read("e", "demo://resource/static/document/features.md")
        (blob,) = await offers.read("e", "demo://resource/dynamic/blob/1")

    assert "demo://resource/dynamic/blob/{resourceId}" in listed
    assert document.text
    assert b"Resource 1" in resource_bytes(blob)


async def test_prompts_are_filled_and_completed(everything):
    async with manager(everything) as servers:
        offers = ServerOffers(servers)
        names = {each.name for each in await offers.all_prompts()}
        (message,) = await offers.get_prompt("e", "args-prompt", {"city": "Oslo"})
        proposals = await offers.complete("e", "completable-prompt", "department", "E")

    assert {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"} <= names
    assert "Oslo" in message.content[0].text
    assert ["Engineering"] == proposals


async def test_a_server_asks_the_model_the_user_and_for_the_roots(everything, tmp_path):
    async def answer(messages, max_tokens, server):
        return Reply(text="It is me.", stop_reason="complete")

    async def fill(form):
        asked.append(form)
        return {"name": "Ada"}

    asked = []
    callbacks = {"sampling": sampling_callback(answer), "elicitation": elicitation_callback(fill)}
    async with manager(everything, roots=(tmp_path,), **callbacks) as servers:
        sampled = await servers.call("e:trigger-sampling-request", {"prompt": "Who?", "maxTokens": 10})
        elicited = await servers.call("e:trigger-elicitation-request", {})
        roots = await servers.call("e:get-roots-list", {})

    assert "It is me." in sampled.text
    assert "Ada" in elicited.text
    assert "e" == asked[0].server
    assert tmp_path.resolve().as_uri() in roots.text


async def test_a_tool_that_runs_as_a_task_only_is_not_offered(everything):
    async with manager(everything) as servers:
        offered = {tool.name for tool in servers.tools()}
        withheld = servers.connection("e").withheld()

    assert "simulate-research-query" not in offered
    assert {"simulate-research-query": "it runs as a task only, which is not supported"} == withheld


async def test_a_graph_is_written_and_searched(entries):
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    async with manager(config("m", entries("memory"))) as servers:
        await servers.call("m:create_entities", {"entities": [entity]})
        found = await servers.call("m:search_nodes", {"query": "counts"})
        await servers.call("m:delete_entities", {"entityNames": ["Ada"]})
        graph = await servers.call("m:read_graph", {})

    assert "Ada" in found.text
    assert "Ada" not in graph.text


async def test_files_are_written_edited_and_kept_inside(entries, folder):
    async with manager(config("f", entries("filesystem"))) as servers:
        await servers.call("f:write_file", {"path": str(folder / "b.txt"), "content": "one two"})
        edits = [{"oldText": "two", "newText": "three"}]
        edited = await servers.call("f:edit_file", {"path": str(folder / "b.txt"), "edits": edits})
        outside = await servers.call("f:read_text_file", {"path": "/etc/passwd"})

    assert "+one three" in edited.text
    assert "one three" == (folder / "b.txt").read_text()
    assert outside.is_error


async def test_a_repository_is_changed(entries, folder):
    place = {"repo_path": str(folder)}
    async with manager(config("g", entries("git"))) as servers:
        await servers.call("g:git_add", {**place, "files": ["a.txt"]})
        staged = await servers.call("g:git_diff_staged", place)

    assert "+hello" in staged.text


@pytest.mark.parametrize("name", ["sdk-1.2", "sdk-1.8"])
async def test_servers_on_old_sdks_are_reached_without_a_setting(entries, name):
    async with manager(config("old", entries(name))) as servers:
        result = await servers.call("old:add", {"a": 1, "b": 2})

    assert "3" == result.text


async def test_parts_are_texts_and_media(everything):
    async with manager(everything) as servers:
        result = await servers.call("e:echo", {"message": "pear"})

    assert (TextPart("Echo: pear"),) == result.content


async def test_a_resource_that_changes_is_told_of(everything):
    uri = "demo://resource/dynamic/text/1"
    async with manager(everything) as servers, asyncio.timeout(60):
        updates = ServerOffers(servers).updates("e", uri)
        first = asyncio.ensure_future(anext(updates))
        await asyncio.sleep(0.5)  # the server notifies clients that have subscribed before of changes
        await servers.call("e:toggle-subscriber-updates", {})
        await first
        await updates.aclose()
