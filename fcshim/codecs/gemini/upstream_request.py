"""The request for an upstream that speaks the Gemini API.

Rule: it always asks for server-sent events. Schemas are sent as `parametersJsonSchema`; a function response is always
an object. The first call of a turn carries its thought signature, or the one that Google documents for calls without a
signature, which Gemini 3 rejects.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.gemini.options import write_settings
from fcshim.codecs.gemini.parts import SKIP_VALIDATION, write_media, write_result
from fcshim.codecs.json_text import arguments_object, write_json
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Request,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    count_leading_system,
    text_of,
)
from fcshim.prompt.history import OPENING
from fcshim.schema.providers import for_gemini


def write_request(request: Request) -> UpstreamRequest:
    """Write a request.

    Raises `RequestError` for several choices, of which the decoder reads only one, and for a model name that is a path.
    """
    if request.n > 1:
        raise RequestError("n: the upstream returns one choice; send several requests for more", param="n")
    leading = count_leading_system(request.messages)
    system = "\n\n".join(filter(None, (text_of(message.content) for message in request.messages[:leading])))
    body: dict[str, JSON] = {
        **write_settings(request),
        **_tools(request),
        "contents": _contents(request.messages[leading:]),
    }
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if {".", ".."} & set(request.model.split("/")):  # would leave the path of models
        raise RequestError(f"model: expected a name, got the path {request.model[:80]!r}", param="model")
    model = quote(request.model.removeprefix("models/"), safe="/:@")
    return UpstreamRequest(f"/models/{model}:streamGenerateContent?alt=sse", write_json(body))


def _tools(request: Request) -> dict[str, JSON]:
    if not request.tools:
        return {}
    tools = {"tools": [{"functionDeclarations": [write_declaration(tool) for tool in request.tools]}]}
    choice = request.tool_choice
    if choice.mode == "auto" and not choice.names:
        return tools
    # The API allows `allowedFunctionNames` only with VALIDATED and ANY; VALIDATED is its AUTO with checked arguments.
    mode = {"auto": "VALIDATED", "none": "NONE", "required": "ANY"}[choice.mode]
    names = {"allowedFunctionNames": list(choice.names)} if choice.names and choice.mode != "none" else {}
    return {**tools, "toolConfig": {"functionCallingConfig": {"mode": mode, **names}}}


def write_declaration(tool: Tool) -> dict[str, JSON]:
    """Write a tool as one of `functionDeclarations`; the API demands a description, and no schema of nothing."""
    fields: dict[str, JSON] = {"name": tool.name, "description": tool.description or tool.name}
    if isinstance(tool.parameters, dict) and tool.parameters.get("properties"):
        fields["parametersJsonSchema"] = for_gemini(tool.parameters)
    return fields


def _contents(messages: Sequence[Message]) -> list[JSON]:
    """Write the contents.

    Adjacent messages of one role become one content, so that the responses of a turn stay together.
    """
    contents: list[dict[str, JSON]] = []
    names: dict[str, str] = {}
    for message in messages:
        role, parts = _turn(message, names)
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    if not contents or contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return contents


def _turn(message: Message, names: dict[str, str]) -> tuple[str, list[JSON]]:
    match message:
        case SystemMessage():
            return "user", [{"text": f"<system_note>\n{text_of(message.content)}\n</system_note>"}]
        case UserMessage():
            return "user", _parts(message.content)
        case ToolMessage():
            name = message.name or names.get(message.tool_call_id, "unknown")
            response = {"id": message.tool_call_id, "name": name, "response": write_result(message)}
            media = (part for part in message.content if isinstance(part, MediaPart))
            return "user", [{"functionResponse": response}, *map(write_media, media)]
        case AssistantMessage():
            names |= {call.id: call.name for call in message.tool_calls}
            return "model", [*_parts(message.content), *_calls(message)]


def _calls(message: AssistantMessage) -> Iterable[JSON]:
    for position, call in enumerate(message.tool_calls):
        part: dict[str, JSON] = {
            "functionCall": {"id": call.id, "name": call.name, "args": arguments_object(call.arguments)}
        }
        yield {**part, "thoughtSignature": message.signature or SKIP_VALIDATION} if position == 0 else part


def _parts(content: Content) -> list[JSON]:
    """Write text and media. Empty texts are dropped, because the API rejects them."""
    return [
        write_media(part) if isinstance(part, MediaPart) else {"text": part.text}
        for part in content
        if isinstance(part, MediaPart) or part.text
    ]
