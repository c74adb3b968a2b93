"""Compaction: a conversation becomes its user messages and one item that sums up the rest.

Rule: the model sums up its own conversation, in one reply without tools. The item's content is opaque to clients, not
secret: it holds the client's own conversation. An item of another server is skipped, like all of an unknown type.
"""

import msgspec

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.json_text import expect, write_json
from fcshim.codecs.openai_responses.encoder import usage_dict
from fcshim.codecs.openai_responses.items import compaction_item
from fcshim.codecs.openai_responses.request import API
from fcshim.codecs.openai_responses.upstream_request import write_parts
from fcshim.codecs.outcome import raise_error
from fcshim.errors import UpstreamError
from fcshim.events import JSON, Usage
from fcshim.messages import ClientOptions, Request, TextPart, ToolChoice, UserMessage
from fcshim.reply import Reply

_PATH = "/compact"
_INSTRUCTION = """\
Sum up the conversation so far for somebody who continues it in your place and sees only your summary and the messages \
of the user: what was decided, found out and done (names, paths, numbers exactly as they are), and what is still open. \
Write plain text, and nothing but the summary: do not go on with the work, and call no function.\
"""


class CompactionOptions(ClientOptions, frozen=True):
    """The client asks for a compaction instead of a reply."""


def is_compaction(target: RequestTarget) -> bool:
    """Return whether the request is one for a compaction."""
    return target.path.endswith(_PATH)


def as_compaction(request: Request) -> Request:
    """Return the request that has the model sum up the conversation. Raises `RequestError` without a model."""
    expect(request.verbatim[API].get("model"), str, "model")
    return msgspec.structs.replace(
        request,
        messages=(*request.messages, UserMessage((TextPart(_INSTRUCTION),))),
        tools=(),
        provider_tools=(),
        tool_choice=ToolChoice("none"),
        stream=False,
        extra={name: value for name, value in request.extra.items() if name != "response_format"},
        verbatim={},
        client_options=CompactionOptions(),
    )


def write_compaction(request: Request, identity: ReplyIdentity, reply: Reply) -> bytes:
    """Write the compacted conversation. Raises `UpstreamError` where the reply has no summary."""
    raise_error(reply)
    summary = reply.text.strip()
    if not summary:
        raise UpstreamError("the model wrote no summary of the conversation")
    number = identity.id.removeprefix("resp_")
    kept = [message for message in request.messages[:-1] if isinstance(message, UserMessage)]
    output: list[JSON] = [
        {
            "id": f"msg_{number}{at:02x}",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": write_parts(message.content),
        }
        for at, message in enumerate(kept)
    ]
    output.append(compaction_item(f"cmp_{number}", summary))
    return write_json(
        {
            "id": identity.id,
            "object": "response.compaction",
            "created_at": identity.created,
            "output": output,
            "usage": usage_dict(reply.usage or Usage()),
        }
    )
