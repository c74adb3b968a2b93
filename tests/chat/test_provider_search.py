"""WebSearch of a chat by the upstream's own search, with what the providers' references document."""

import json

import pytest

from fcshim.chat.provider_search import ProviderSearch
from fcshim.config import Config, Secret
from fcshim.errors import ConfigError, ToolError
from fcshim.tools.builtin.websearch import SearchResult
from tests.server.raw_upstream import fixed_reply, raw_upstream, reset

# platform.claude.com, "Web search tool"; platform.openai.com, "Web search"; ai.google.dev, "Grounding with Google
# Search"
ANTHROPIC = {
    "id": "msg_a930390d3a",
    "type": "message",
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I'll search for when Claude Shannon was born."},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_01WYG3ziw53XMcoyKL4XcZmE",
            "name": "web_search",
            "input": {"query": "claude shannon birth date"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_01WYG3ziw53XMcoyKL4XcZmE",
            "content": [
                {
                    "type": "web_search_result",
                    "url": "https://en.wikipedia.org/wiki/Claude_Shannon",
                    "title": "Claude Shannon - Wikipedia",
                    "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5LTQ1NGUtODgxNC1kNjNjNTk1ZWI3Y...",
                    "page_age": "April 30, 2025",
                },
                {
                    "type": "web_search_result",
                    "url": "https://example.org/other",
                    "title": "Other",
                    "encrypted_content": "Eqg",
                },
            ],
        },
        {
            "type": "text",
            "text": "Claude Shannon was born on April 30, 1916, in Petoskey, Michigan",
            "citations": [
                {
                    "type": "web_search_result_location",
                    "url": "https://en.wikipedia.org/wiki/Claude_Shannon",
                    "title": "Claude Shannon - Wikipedia",
                    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0OWJmZi1lNm..",
                    "cited_text": "Claude Elwood Shannon (April 30, 1916 - February 24, 2001) was",
                }
            ],
        },
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 6039, "output_tokens": 931, "server_tool_use": {"web_search_requests": 1}},
}
TEXT = "On March 6, 2025, several news happened. (cnn.com) And more. (bbc.com)"
RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [
        {
            "type": "web_search_call",
            "id": "ws_67c9fa0502748190b7dd390736892e100be649c1a5ff9609",
            "status": "completed",
            "action": {
                "type": "search",
                "query": "news",
                "sources": [{"type": "url", "url": "https://cnn.com/a"}, {"type": "url", "url": "https://c.org/"}],
            },
        },
        {
            "id": "msg_1",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": TEXT,
                    "annotations": [
                        {
                            "type": "url_citation",
                            "start_index": TEXT.index("(cnn"),
                            "end_index": TEXT.index(" And"),
                            "url": "https://cnn.com/a",
                            "title": "CNN",
                        },
                        {
                            "type": "url_citation",
                            "start_index": TEXT.index("(bbc"),
                            "end_index": len(TEXT),
                            "url": "https://bbc.com/b",
                            "title": "BBC",
                        },
                    ],
                }
            ],
        },
    ],
}
GEMINI = {
    "candidates": [
        {
            "content": {"parts": [{"text": "Spain won Euro 2024, defeating England 2-1."}], "role": "model"},
            "groundingMetadata": {
                "webSearchQueries": ["UEFA Euro 2024 winner"],
                "searchEntryPoint": {"renderedContent": "<!-- HTML -->"},
                "groundingChunks": [
                    {"web": {"uri": "https://vertexaisearch.cloud.google.com/1", "title": "aljazeera.com"}},
                    {"web": {"uri": "https://vertexaisearch.cloud.google.com/2", "title": "uefa.com"}},
                ],
                "groundingSupports": [
                    {
                        "segment": {
                            "startIndex": 0,
                            "endIndex": 43,
                            "text": "Spain won Euro 2024, defeating England 2-1.",
                        },
                        "groundingChunkIndices": [0],
                    }
                ],
            },
        }
    ]
}
CASES = {
    "anthropic": (
        ANTHROPIC,
        "POST /v1/messages HTTP/1.1",
        [
            SearchResult(
                "Claude Shannon - Wikipedia",
                "https://en.wikipedia.org/wiki/Claude_Shannon",
                "Claude Elwood Shannon (April 30, 1916 - February 24, 2001) was",
            ),
            SearchResult("Other", "https://example.org/other", ""),
        ],
    ),
    "responses": (
        RESPONSES,
        "POST /v1/responses HTTP/1.1",
        [
            SearchResult("CNN", "https://cnn.com/a", "On March 6, 2025, several news happened."),
            SearchResult("BBC", "https://bbc.com/b", "And more."),
            SearchResult("", "https://c.org/", ""),
        ],
    ),
    "gemini": (
        GEMINI,
        "POST /v1beta/models/m:generateContent HTTP/1.1",
        [
            SearchResult(
                "aljazeera.com",
                "https://vertexaisearch.cloud.google.com/1",
                "Spain won Euro 2024, defeating England 2-1.",
            ),
            SearchResult("uefa.com", "https://vertexaisearch.cloud.google.com/2", ""),
        ],
    ),
}
SEARCH_TOOLS = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
    "responses": {"type": "web_search"},
    "gemini": {"google_search": {}},
}


async def search(api: str, reply, count: int = 10) -> tuple[list[SearchResult], list]:
    async with raw_upstream(reply) as upstream:
        config = Config(upstream=upstream.url, upstream_api=api, upstream_key=Secret("secret-key-of-upstream"))
        found = await ProviderSearch(config, lambda: "m").search("claude shannon", count)
    return found, upstream.requests


@pytest.mark.parametrize("api", CASES)
async def test_the_results_are_what_the_provider_found(api):
    answer, line, expected = CASES[api]
    found, (request,) = await search(api, fixed_reply(200, json.dumps(answer).encode()))

    assert expected == found
    assert line == request.request_line
    assert [SEARCH_TOOLS[api]] == request.json_body["tools"]
    assert "claude shannon" in json.dumps(request.json_body)
    assert b"secret-key-of-upstream" in request.head


@pytest.mark.parametrize("api", CASES)
async def test_no_more_results_than_asked_for(api):
    found, _ = await search(api, fixed_reply(200, json.dumps(CASES[api][0]).encode()), count=1)

    assert CASES[api][2][:1] == found


async def test_without_a_name_the_first_model_is_asked():
    async with raw_upstream(
        fixed_reply(200, b'{"data":[{"id":"first"},{"id":"second"}]}'),
        fixed_reply(200, json.dumps(ANTHROPIC).encode()),
    ) as upstream:
        await ProviderSearch(Config(upstream=upstream.url, upstream_api="anthropic"), lambda: "").search("x", 1)

    assert "first" == upstream.requests[-1].json_body["model"]


FAILED = {
    "content": [
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        }
    ]
}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (fixed_reply(200, json.dumps(FAILED).encode()), "max_uses_exceeded"),
        (fixed_reply(429, b'{"error":{"message":"slow down"}}'), "slow down"),
        (fixed_reply(401, b'{"error":{"message":"bad key secret-key-of-upstream"}}'), "failed"),
        (fixed_reply(200, b"<html>"), "not JSON"),
        (reset, "failed"),
    ],
)
async def test_a_failure_is_an_error_of_the_tool_and_shows_no_key(reply, message):
    with pytest.raises(ToolError, match=message) as caught:
        await search("anthropic", reply)

    assert "secret-key" not in str(caught.value)


ODD = (
    b"[]",
    b"null",
    b"5",
    b'{"content": 5, "output": [1], "candidates": {}}',
    b'{"content": [{"content": [null, {}]}]}',
)


@pytest.mark.parametrize("body", [*ODD, b'{"candidates": [{"groundingMetadata": {"groundingSupports": [{}]}}]}'])
@pytest.mark.parametrize("api", CASES)
async def test_an_answer_of_another_form_has_no_results(api, body):
    found, _ = await search(api, fixed_reply(200, body))

    assert [] == found


@pytest.mark.parametrize("api", ["openai", "ollama", "llamacpp"])
def test_an_upstream_without_a_search_is_an_error_of_the_settings(api):
    with pytest.raises(ConfigError, match=f"{api} have no search; expected one of anthropic, responses, gemini"):
        ProviderSearch(Config(upstream_api=api), lambda: "m")
