"""vLLM's parser of chat replies and its stream processor, with the tool parsers of fcshim; no engine runs."""

import json
import time

import pytest
from tests.integrations.frameworks.engine_fixtures import CASES, HERMES, differing, failures, tokenizer, tokenizer_of
from vllm.entrypoints.openai.chat_completion.message_assembly import assemble_chat_message_fields
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
from vllm.parser.parser_manager import ParserManager
from vllm.plugins import load_general_plugins

load_general_plugins()


def request_of(tools, **fields):
    offered = {"tools": tools, "tool_choice": "auto"} if tools else {}
    messages = [{"role": "user", "content": "Use the tools."}]
    return ChatCompletionRequest(**{"model": "m", "messages": messages, **offered, **fields})


def parser_class(tokenizer, name="fcshim"):
    return ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True, tokenizer=tokenizer)


def read_whole(text, request, tokenizer, name="fcshim"):
    """Read a reply as `OpenAIServingChat` does where it does not stream."""
    made = parser_class(tokenizer, name)
    parsed = made(tokenizer, request.tools).parse(text, request, enable_auto_tools=True)
    fields = assemble_chat_message_fields(request, *parsed, enable_auto_tools=True, parser_cls=made)
    calls = [
        {"name": call.function.name, "arguments": json.loads(call.function.arguments)} for call in fields.tool_calls
    ]
    return calls, fields.content or ""


def steps(pieces, request, tokenizer, name="fcshim"):
    """Yield the deltas of a stream, as `OpenAIServingChat` does."""
    made = parser_class(tokenizer, name)
    processor = ChatStreamProcessor(
        request, made(tokenizer, request.tools), enable_auto_tools=True, parser_cls=made
    )
    pieces = list(pieces)
    for at, piece in enumerate(pieces, 1):
        yield processor.step(piece, [at], "stop" if at == len(pieces) else None, [0]).delta


def read_stream(pieces, request, tokenizer, name="fcshim"):
    """Return what a client makes of a stream: a call whose arguments are a JSON object runs."""
    content, calls = [], {}
    for delta in steps(pieces, request, tokenizer, name):
        if delta is None:
            continue
        content.append(delta.content or "")
        assert len({call.index for call in delta.tool_calls}) == len(delta.tool_calls)
        for call in delta.tool_calls:
            names, arguments = calls.setdefault(call.index, ([], []))
            names.append(call.function.name or "")
            arguments.append(call.function.arguments or "")
    found = [("".join(names), _loads("".join(arguments))) for names, arguments in calls.values()]
    return [{"name": name, "arguments": value} for name, value in found if isinstance(value, dict)], "".join(content)


def _loads(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None


def read_fixture(fixture, pieces):
    made, request = tokenizer_of(fixture), request_of(fixture["tools"])
    if pieces is None:
        return read_whole(fixture["raw_output"], request, made)
    return read_stream(pieces, request, made)
