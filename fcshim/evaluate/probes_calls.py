"""Probes of calls: the endpoint's own tools, and what holds a model to a form whatever it would rather say.

Rule: a constraint counts as real only where it makes the model write what nobody asked it for; only grammars of
fcshim's own are sent, because a bad one ends llama-cpp-python's process.
Neighbours: `probes` has the table, `patient` asks; `constrain` writes the constraints that requests will carry.
"""

from fcshim.constrain.constraint import Form, apply_constraint, constraint_for
from fcshim.evaluate.finding import Seen
from fcshim.evaluate.patient import HELLO, Answer, Patient, excerpt, user
from fcshim.messages import Tool, ToolChoice
from fcshim.parse.dialects import AUTO, FUNCTION_CALL
from fcshim.parse.stream import StreamParser
from fcshim.reply import fold
from fcshim.backends import GENERIC, BACKENDS

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
_ASKED = "What is the weather in Paris today? Call the tool get_weather with city=Paris."
_CALL_TOKENS = 400
"""Tokens in which a model that reasons comes to its call."""
_LEAST = 15
"""Tokens that the tool takes in a prompt at least."""
_SEAL = "fcshim-7391"
_SEALED = Tool(
    name="seal",
    description="",
    parameters={
        "type": "object",
        "properties": {"word": {"type": "string", "enum": [_SEAL]}},
        "required": ["word"],
        "additionalProperties": False,
    },
)
_SEAL_TOKENS, _THOUGHT_TOKENS = 120, 1_500
"""Tokens for that call, one character each; for that of a model that reasons first, where the server lets it."""


async def has_tools(patient: Patient) -> Seen:
    """Offer a tool the endpoint's own way: refused, ignored, in the prompt, or called."""
    free = await _with_tools(patient, "auto")
    if not free.good:
        return Seen("no" if free.refused else "unclear", free.told(), "tools go by the prompt (tools = prompt)")
    if _called(free):
        return Seen("yes", f"it called: {_shown(free)}", "its own tools are to be had (tools = native)", "auto")
    bare = await patient.ask(patient.request(user(_ASKED), max_tokens=1))
    more = free.prompt_tokens - bare.prompt_tokens if free.prompt_tokens and bare.prompt_tokens else None
    if more is not None and more < _LEAST:
        ignored = f"ignored without a word: the prompt grew by {more} tokens"
        return Seen("no", ignored, "tools go by the prompt (tools = prompt)", "ignored")
    if _in_text(free):
        return Seen("no", f"its call stays in the text: {excerpt(free.text)!r}", "tools go by the prompt", "text")
    demanded = await _with_tools(patient, "required")
    if demanded.good and _called(demanded):
        return Seen("unclear", f"it called only when it had to: {_shown(demanded)}", value="required")
    return Seen("unclear", f"no call came, but {excerpt(free.text)!r}")


async def _with_tools(patient: Patient, mode: str) -> Answer:
    choice = ToolChoice("required" if mode == "required" else "auto")
    return await patient.ask(
        patient.request(user(_ASKED), max_tokens=_CALL_TOKENS, tools=(_WEATHER,), tool_choice=choice)
    )


def _called(answer: Answer) -> bool:
    return any(call.error is None and call.tool_call_name == _WEATHER.name for call in answer.reply.tool_calls)


def _shown(answer: Answer) -> str:
    call = answer.reply.tool_calls[0]
    return excerpt(f"{call.tool_call_name} {call.tool_call_arguments_complete}")


def _in_text(answer: Answer) -> bool:
    parser = StreamParser(AUTO, (_WEATHER,))
    events = parser.feed(answer.text) + parser.close()
    return any(call.error is None for call in fold(events).tool_calls)


async def takes_grammar(patient: Patient) -> Seen:
    """Hold a reply to a call by a GBNF grammar, as llama.cpp takes it."""
    return await _held(patient, "gbnf")


async def takes_schema(patient: Patient) -> Seen:
    """Hold a reply to a call by a JSON Schema."""
    return await _held(patient, "json_schema")


async def takes_structural_tag(patient: Patient) -> Seen:
    """Hold a reply to a call by a structural tag, as vLLM and SGLang take it."""
    return await _held(patient, "structural_tag")


async def _held(patient: Patient, form: Form) -> Seen:
    """Say hello, with the constraint that demands an odd call of which the prompt says nothing."""
    most = _THOUGHT_TOKENS if patient.reasons else _SEAL_TOKENS
    demanded = ToolChoice("required")
    request = patient.request(user(HELLO), max_tokens=most, tool_choice=demanded, parallel_tool_calls=False)
    constraint = constraint_for(form, FUNCTION_CALL, (_SEALED,), request)
    assert constraint is not None
    answer = await patient.ask(apply_constraint(request, constraint))
    if not answer.good:
        return Seen("no" if answer.refused else "unclear", answer.told())
    parser = StreamParser(constraint.dialect, (_SEALED,))
    calls = fold(parser.feed(answer.text) + parser.close()).tool_calls
    if calls and calls[0].error is None and _SEAL in calls[0].tool_call_arguments_complete:
        return Seen("yes", f"it made the model write {excerpt(answer.text)!r}", "a call that is demanded comes", form)
    if answer.reply.reasoning and not answer.text:
        return Seen("unclear", "it was still reasoning when its tokens were used up")
    return Seen("no", f"accepted, and made no difference: {excerpt(answer.text)!r}")


def server_for(form: Form) -> str:
    """Name the first kind of server that takes this form."""
    return next((row.name for row in BACKENDS.values() if row.form == form), GENERIC.name)
