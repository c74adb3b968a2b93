"""Probes of tool calls: native tool calling, and the constraints that the endpoint enforces.

Rule: a constraint is enforced only if it makes the model write something that the prompt does not ask for. Only
grammars that fcshim generates are sent, because an invalid one kills the process of llama-cpp-python.
"""

from fcshim.constrain.constraint import Form, apply_constraint, constraint_for
from fcshim.evaluate.result import ProbeResult
from fcshim.evaluate.target import HELLO, ProbeResponse, ProbeTarget, excerpt, user_message
from fcshim.messages import Tool, ToolChoice
from fcshim.parse.dialects import AUTO, FUNCTION_CALL, HERMES
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.backends import BACKENDS, GENERIC
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.render import render_call
from fcshim.reply import fold

_WEATHER = Tool(
    name="get_weather",
    description="Tells the weather in a city, now or on one of the days to come.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The name of the city"},
            "days": {"type": "integer", "description": "How many days from now; 0 is today"},
        },
        "required": ["city"],
    },
)
_QUESTION = "What is the weather in Paris today? Call the tool get_weather with city=Paris."
_REPEAT = "Repeat the following exactly, and write nothing else:"
_CALL_TOKENS = 400
"""Tokens in which a model that reasons first reaches its call."""
_MIN_TOOL_TOKENS = 15
"""Prompt tokens that the definition of the tool takes at least."""
_NONCE = "fcshim-7391"
_NONCE_TOOL = Tool(
    name="seal",
    description="",
    parameters={
        "type": "object",
        "properties": {"word": {"type": "string", "enum": [_NONCE]}},
        "required": ["word"],
        "additionalProperties": False,
    },
)
_NONCE_CALL_TOKENS, _REASONING_TOKENS = 120, 1_500
"""Most tokens of the constrained call, at one character each; and of a reply that may start with reasoning."""


async def probe_tools(target: ProbeTarget) -> ProbeResult:
    """Send a tool in the request: it may be rejected, ignored, called natively, or called in the text."""
    free = await _ask_with_tool(target, "auto")
    if not free.ok:
        return ProbeResult(
            "no" if free.rejected else "unclear", free.error_summary(), "tools go into the prompt (tools = prompt)"
        )
    if _has_call(free):
        return ProbeResult(
            "yes", f"it called: {_format_call(free)}", "native tool calling works (tools = native)", "auto"
        )
    bare = await target.send(target.make_request(user_message(_QUESTION), max_tokens=1))
    more = free.prompt_tokens - bare.prompt_tokens if free.prompt_tokens and bare.prompt_tokens else None
    if more is not None and more < _MIN_TOOL_TOKENS:
        ignored = f"silently ignored: the prompt grew by {more} tokens"
        return ProbeResult("no", ignored, "tools go into the prompt (tools = prompt)", "ignored")
    if _has_call_in_text(free):
        return ProbeResult(
            "no", f"its call stays in the text: {excerpt(free.text)!r}", "tools go by the prompt", "text"
        )
    required = await _ask_with_tool(target, "required")
    if required.ok and _has_call(required):
        return ProbeResult(
            "unclear", f"it called only with tool_choice required: {_format_call(required)}", value="required"
        )
    return ProbeResult("unclear", f"no call came, but {excerpt(free.text)!r}")


async def _ask_with_tool(target: ProbeTarget, mode: str) -> ProbeResponse:
    choice = ToolChoice("required" if mode == "required" else "auto")
    return await target.send(
        target.make_request(user_message(_QUESTION), max_tokens=_CALL_TOKENS, tools=(_WEATHER,), tool_choice=choice)
    )


def _has_call(response: ProbeResponse) -> bool:
    return any(call.error is None and call.tool_call_name == _WEATHER.name for call in response.reply.tool_calls)


def _format_call(response: ProbeResponse) -> str:
    call = response.reply.tool_calls[0]
    return excerpt(f"{call.tool_call_name} {call.tool_call_arguments_complete}")


def _has_call_in_text(response: ProbeResponse) -> bool:
    parser = StreamParser(AUTO, (_WEATHER,))
    events = parser.feed(response.text) + parser.close()
    return any(call.error is None for call in fold(events).tool_calls)


async def probe_text_calls(target: ProbeTarget) -> ProbeResult:
    """Make the model write a call as text, without tools in the request: some servers parse it all the same."""
    dialect = chosen_dialect(AUTO, target.model)
    if dialect is FUNCTION_CALL:  # no server knows it
        dialect = HERMES
    call = render_call(dialect, _WEATHER.name, '{"city": "Paris"}').strip("\n")
    request = target.make_request(user_message(f"{_REPEAT}\n\n{call}"), max_tokens=_CALL_TOKENS)
    answer = await target.send(request)
    if not answer.ok:
        return ProbeResult("unclear", answer.error_summary())
    if answer.reply.tool_calls:
        evidence = f"no tools were sent, yet it answered with a call: {_format_call(answer)}"
        return ProbeResult("no", evidence, "fcshim checks such calls as if they stood in the text", dialect.name)
    if _has_call_in_text(answer):
        return ProbeResult("yes", f"a call stayed in the text: {excerpt(answer.text)!r}", value=dialect.name)
    return ProbeResult("unclear", f"no call came, but {excerpt(answer.text)!r}")


async def probe_grammar(target: ProbeTarget) -> ProbeResult:
    """Constrain a reply to a call with a GBNF grammar, as llama.cpp accepts it."""
    return await _probe_constraint(target, "gbnf")


async def probe_schema(target: ProbeTarget) -> ProbeResult:
    """Constrain a reply to a call with a JSON Schema."""
    return await _probe_constraint(target, "json_schema")


async def probe_structural_tag(target: ProbeTarget) -> ProbeResult:
    """Constrain a reply to a call with a structural tag, as vLLM and SGLang accept it."""
    return await _probe_constraint(target, "structural_tag")


async def _probe_constraint(target: ProbeTarget, form: Form) -> ProbeResult:
    """Send the baseline message with a constraint that requires a call with a nonce, which the prompt does not have."""
    max_tokens = _REASONING_TOKENS if target.emits_reasoning else _NONCE_CALL_TOKENS
    required = ToolChoice("required")
    request = target.make_request(
        user_message(HELLO), max_tokens=max_tokens, tool_choice=required, parallel_tool_calls=False
    )
    constraint = constraint_for(form, FUNCTION_CALL, (_NONCE_TOOL,), request)
    assert constraint is not None
    answer = await target.send(apply_constraint(request, constraint))
    if not answer.ok:
        return ProbeResult("no" if answer.rejected else "unclear", answer.error_summary())
    parser = StreamParser(constraint.dialect, (_NONCE_TOOL,))
    calls = fold(parser.feed(answer.text) + parser.close()).tool_calls
    if calls and calls[0].error is None and _NONCE in calls[0].tool_call_arguments_complete:
        return ProbeResult("yes", f"it made the model write {excerpt(answer.text)!r}", "required calls work", form)
    if answer.reply.reasoning and not answer.text:
        return ProbeResult("unclear", "the reply reached its token limit while it was still reasoning")
    return ProbeResult("no", f"accepted, and made no difference: {excerpt(answer.text)!r}")


def backend_name_for(form: Form) -> str:
    """Return the name of the first backend that accepts this form of constraint."""
    return next((row.name for row in BACKENDS.values() if row.form == form), GENERIC.name)
