"""A scripted model: it knows the answers of the race's cases, and writes them in one form if its prompt shows it."""

import json

from fcshim.evaluate.suite import RACE, load_cases
from fcshim.prompt.dialect_folder import find_dialect
from fcshim.prompt.render import render_calls
from tests.scripted import ReceivedRequest, Script, text_reply

CASES = load_cases([RACE])
SIGNS = {"function_call": "<function_call>", "hermes": "<tool_call>", "fenced_json": "```json"}
"""What the prompt of a form has, and those of others do not; none of them is the sign of `bare_json`."""


def case_of(asked: ReceivedRequest):
    """Return the case that a request comes from, by its turns."""
    turns = [message for message in asked.body["messages"] if message["role"] != "system"]
    texts = [str(message["content"]) for message in turns]

    def fits(case) -> bool:
        own = [message for message in case.messages if message["content"] is not None and message["role"] == "user"]
        return len(turns) == len(case.messages) and all(
            any(message["content"] in text for text in texts) for message in own
        )

    return next((case for case in CASES if fits(case)), None)


def shown_form(asked: ReceivedRequest) -> str:
    """Return the form that the prompt shows."""
    prompt = str(asked.body["messages"][0]["content"])
    return next((form for form, sign in SIGNS.items() if sign in prompt), "bare_json")


def write_calls(form: str):
    """Return a function that answers requests: calls in `form`, `each` for whatever the prompt shows, else text.

    Where the form is not shown, the model only talks; but `hermes` is written wherever no other form suits.
    """

    def respond(asked: ReceivedRequest) -> Script:
        shown = shown_form(asked)
        case = case_of(asked)
        if case is None or not any(case.expected) or (form not in ("each", "hermes") and shown != form):
            return text_reply("I cannot do that.")
        calls = [
            (call.name, json.dumps({key: values[0] for key, values in call.arguments.items()}))
            for call in case.expected[0]
        ]
        return text_reply(render_calls(find_dialect(shown if form == "each" else form), calls))

    return respond


def write_nothing(_: ReceivedRequest) -> Script:
    """Answer every request with a sentence."""
    return text_reply("I have no tools.")
