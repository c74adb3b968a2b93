"""The client's whole reply, and the parts that it shares with the stream.

Rule: only calls that ended without error become calls. If nothing else is left, the excerpt of a malformed call is the
text, so that no reply is silently empty.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_text import write_json
from fcshim.codecs.ollama.models import timestamp
from fcshim.codecs.ollama.options import OllamaClientOptions
from fcshim.codecs.outcome import is_truncated, raise_error, valid_calls, visible_text
from fcshim.errors import FcshimError
from fcshim.events import JSON, StopReason, ToolCallEnd, Usage
from fcshim.messages import Request
from fcshim.reply import Reply


class Elapsed(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds; 0 means unknown, and is not written."""

    total: float = 0.0
    prompt: float = 0.0
    """Until the first event of the reply."""

    def to_fields(self) -> dict[str, JSON]:
        """Return the API's fields, in nanoseconds. `eval_duration` is never 0, because clients divide by it."""
        if not self.total:
            return {}
        total, prompt = round(self.total * 1e9), round(self.prompt * 1e9)
        fields = {"total_duration": total, "load_duration": 0, "prompt_eval_duration": prompt}
        return {**fields, "eval_duration": max(total - prompt, 1)}


def common_fields(identity: ReplyIdentity) -> dict[str, JSON]:
    """Return the fields with which every line starts."""
    return {"model": identity.model, "created_at": timestamp(identity.created)}


def final_fields(reason: StopReason | None, usage: Usage | None, elapsed: Elapsed) -> dict[str, JSON]:
    """Return the fields that end a reply."""
    counts = {} if usage is None else {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
    done_reason = "length" if reason == "max_tokens" else "stop"
    return {"done": True, "done_reason": done_reason, **elapsed.to_fields(), **counts}


def write_call(call: ToolCallEnd, position: int) -> dict[str, JSON]:
    """Return one call; its arguments keep their bytes, except for line ends between tokens."""
    arguments = call.tool_call_arguments_complete.replace("\n", " ").replace("\r", " ")
    function = {"index": position, "name": call.tool_call_name, "arguments": msgspec.Raw(to_utf8(arguments))}
    return {"id": call.tool_call_id, "function": function}


def to_utf8(text: str) -> bytes:
    """Encode text as UTF-8; lone surrogates, which it cannot encode, become U+FFFD."""
    return text.encode("utf-8", "replace") if not text.isascii() else text.encode()


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply of one choice; with no replies, report that the model is loaded.

    Raises `UpstreamError` if the reply has an error.
    """
    options = OllamaClientOptions.of(request)
    if not replies:
        return _write_loaded(options, identity)
    reply = replies[0]
    raise_error(reply)
    reason = "max_tokens" if is_truncated(reply) else reply.stop_reason
    thinking = reply.reasoning if options.thinking else ""
    content = _content(options, visible_text(reply), thinking, valid_calls(reply))
    final = final_fields(reason, reply.usage, Elapsed(total=identity.elapsed()))
    return write_json({**common_fields(identity), **content, **final})


def _content(options: OllamaClientOptions, text: str, thinking: str, calls: Sequence[ToolCallEnd]) -> dict[str, JSON]:
    if options.generate:
        return {"response": text, **({"thinking": thinking} if thinking else {})}
    message: dict[str, JSON] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = [write_call(call, position) for position, call in enumerate(calls)]
    return {"message": message}


def _write_loaded(options: OllamaClientOptions, identity: ReplyIdentity) -> bytes:
    """Respond to a request without a prompt, which loads or unloads the model.

    Nothing is done: the upstream decides when to load a model.
    """
    reason = "unload" if options.unload else "load"
    return msgspec.json.encode(
        {**common_fields(identity), **_content(options, "", "", ()), "done": True, "done_reason": reason}
    )


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": message}`; the server sets the HTTP status."""
    return msgspec.json.encode({"error": error.message})
