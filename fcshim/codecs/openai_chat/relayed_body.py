"""Rewrites a request without tools so that every server of the Chat API accepts it, and a reply for strict clients.

Rule: only what strict servers refuse is rewritten, without a change of meaning: null and empty fields, fields that
accompany tools although there are none, the role `developer`, text in parts. A reply gets the required fields that may
be null and that many servers omit. Every other value keeps its bytes, and a body without any of these is unchanged.
"""

import msgspec

from fcshim.events import JSON

Fields = dict[str, msgspec.Raw]

_NULL, _EMPTY_TEXT = b"null", b'""'
_TOOL_FIELDS = frozenset(["tools", "functions"])
_COMPANIONS = frozenset(["tool_choice", "parallel_tool_calls", "function_call"])
"""Fields that some servers refuse where no tools are offered, even `tool_choice: "none"`."""
_LISTS = _TOOL_FIELDS | {"stop"}
"""Fields of the request for which an empty list means nothing; some servers want at least one item."""
_SEPARATOR = "\n"
"""The text that llama.cpp and vLLM insert between the text parts of a message."""


def relayed_body(body: bytes) -> bytes:
    """Return the body of a request without tools for any server."""
    fields = msgspec.json.decode(body, type=Fields)
    listed = msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])
    messages = [msgspec.json.decode(message, type=Fields) for message in listed]  # other threads run in between
    kept = {name: value for name, value in fields.items() if not _is_empty(name, value)}
    if not _TOOL_FIELDS & kept.keys():
        kept = {name: value for name, value in kept.items() if name not in _COMPANIONS}
    written = [_message(message) for message in messages]
    if len(kept) == len(fields) and written == messages:
        return body
    return msgspec.json.encode({**kept, "messages": written})


def relayed_reply(body: bytes) -> bytes:
    """Return a reply that is one document with `refusal` and `logprobs` in each choice; any other body as it is."""
    try:
        fields = msgspec.json.decode(body, type=Fields)
        choices = msgspec.json.decode(fields.get("choices", b"[]"), type=list[Fields])
        completed = [_completed(choice) for choice in choices]
    except (ValueError, RecursionError):
        return body
    return body if completed == choices else msgspec.json.encode({**fields, "choices": completed})


def _completed(choice: Fields) -> Fields:
    message = choice.get("message")
    if message is None:  # a reply of another kind
        return choice
    null = msgspec.Raw(_NULL)
    found = msgspec.json.decode(message, type=Fields)
    if "refusal" not in found:
        message = msgspec.Raw(msgspec.json.encode({**found, "refusal": null}))
    return {"logprobs": null, **choice, "message": message}


def _is_empty(name: str, value: msgspec.Raw) -> bool:
    data = bytes(value)
    return data == _NULL or (name in _LISTS and _is_empty_list(data))


def _is_empty_list(data: bytes) -> bool:
    return data[:1] == b"[" and not data[1:-1].strip()


def _message(message: Fields) -> Fields:
    """Return a message without null fields and empty lists; it has a content, which is one text if it is only text."""
    kept = {name: value for name, value in message.items() if not _is_absent(bytes(value))}
    content = kept.get("content", msgspec.Raw(_EMPTY_TEXT))
    return _with_known_role({**kept, "content": _content(content)})


def _is_absent(data: bytes) -> bool:
    return data == _NULL or _is_empty_list(data)


def _with_known_role(message: Fields) -> Fields:
    if bytes(message.get("role", b"")) == b'"developer"':
        return {**message, "role": msgspec.Raw(b'"system"')}
    return message


def _content(content: msgspec.Raw) -> msgspec.Raw:
    """Join the parts of a text. Parts with more fields than a text has stay, since some servers read those."""
    if bytes(content)[:1] != b"[":
        return content
    parts: list[JSON] = msgspec.json.decode(content)
    texts = [part["text"] for part in parts if _is_plain_text(part)]
    return msgspec.Raw(msgspec.json.encode(_SEPARATOR.join(texts))) if len(texts) == len(parts) else content


def _is_plain_text(part: JSON) -> bool:
    return (
        isinstance(part, dict)
        and part.keys() == {"type", "text"}
        and part["type"] == "text"
        and isinstance(part["text"], str)
    )
