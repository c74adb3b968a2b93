"""A script that plays a text-only model, behind an endpoint that refuses whatever is not plain text.

Rule: the model knows only the prompt. It looks for the task, for the offered tools and for its own earlier steps, and
writes the next step as text. It keeps nothing between requests, so that retries and side requests do no harm.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fcshim.events import JSON
from tests.clients.agents.dialects import Call, Notation
from tests.scripted import ReceivedRequest, Script, text_reply

TASK = "Carry out the next part of plan 7f3."
"""The user's message; the model counts how often it was said."""
COPIED = re.compile(r"KEEP .*? END")
"""What the model copies from a result, character by character as it stands there: the value `{copied}` of calls."""
REPORTED = re.compile(r"EFFECT \w+")
"""What the model repeats from a result in its last words."""
_REFUSED = {"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"}
_STEP = re.compile(r"Step (\d+)\.")
_CHUNK = 7
"""Characters in a chunk: no marker arrives whole."""

Vocabulary = Mapping[str, Sequence[tuple[str, JSON]]]
"""The tools that can do an action, and their arguments; the first that is offered is taken.

An agent that ends only by a call has the action `finish`."""


@dataclass(frozen=True)
class Action:
    """One call: what it does, and the values that stand for `{path}`, `{text}` and the like in its arguments."""

    name: str
    values: Mapping[str, str]


Part = Sequence[Sequence[Action]]
"""The steps that follow one message of the user; a step is one reply, with one call or several."""


@dataclass
class ScriptedModel:
    """Carries out the parts of a plan, one for each time that the task was given."""

    notation: Notation
    vocabulary: Vocabulary
    parts: Sequence[Part]
    json_results: bool = False
    """The agent's tools answer in JSON."""
    refused: list[str] = field(default_factory=list)

    def respond(self, request: ReceivedRequest) -> Script:
        """Answer one chat request."""
        if problem := refusal(request.body):
            self.refused.append(problem)
            return Script((json.dumps({"error": {"message": problem, "type": "invalid_request_error"}}).encode(),), 400)
        text = self._reply([(message["role"], message["content"]) for message in request.body["messages"]])
        return text_reply(*(text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)))

    def _reply(self, messages: Sequence[tuple[str, str]]) -> str:
        said = "\n".join(text for role, text in messages if role == "user")
        own = "\n".join(text for role, text in messages if role == "assistant")
        steps = [step for part in self.parts[: said.count(TASK)] for step in part]
        done = max(map(int, _STEP.findall(own)), default=0)
        tools = offered_tools(self.vocabulary, "\n".join(text for _, text in messages))
        if not steps or not tools:
            return "A plan"
        if done < len(steps):
            return f"Step {done + 1}.\n{self._write(steps[done], tools, said)}"
        words = last_words(done, REPORTED.findall(said)[-1])
        return f"{words}\n{self.notation.write([tools['finish']])}" if "finish" in tools else words

    def _write(self, step: Sequence[Action], tools: Mapping[str, tuple[str, JSON]], said: str) -> str:
        copied = self._copied(said)
        calls: list[Call] = []
        for action in step:
            name, arguments = tools[action.name]
            calls.append((name, _fill(arguments, {**action.values, "copied": copied})))
        return self.notation.write(calls)

    def _copied(self, said: str) -> str:
        """Return the text to copy; inside a JSON string, its decoded value."""
        text = next(iter(COPIED.findall(said)), "")
        for _ in range(self.notation.json_results + self.json_results):
            text = json.loads(f'"{text}"')
        return text


def last_words(steps: int, report: str) -> str:
    """Return what the model says at the end of a part."""
    return f"After {steps} steps: {report}"


def refusal(body: Mapping[str, JSON]) -> str:
    """Return why a text-only endpoint refuses a request; empty if it does not."""
    if fields := _REFUSED & set(body):
        return f"unsupported fields: {', '.join(sorted(fields))}"
    roles = [message["role"] for message in body["messages"]]
    if set(roles) - {"system", "user", "assistant"} or "system" in roles[1:]:
        return f"expected one system message at the start, and user and assistant after it, not {roles}"
    if any(set(each) != {"role", "content"} or not isinstance(each["content"], str) for each in body["messages"]):
        return "a message has a role and a content, which is a string"
    return "" if body.get("stream") else "only streams are served"


def offered_tools(vocabulary: Vocabulary, prompt: str) -> dict[str, tuple[str, JSON]]:
    """Choose a tool for each action that the prompt describes, in either style; empty if an action has none."""
    offered = {
        action: [pair for pair in tools if f'"name": "{pair[0]}"' in prompt or f"\nfunction {pair[0]}(" in prompt]
        for action, tools in vocabulary.items()
    }
    return {action: tools[0] for action, tools in offered.items()} if all(offered.values()) else {}


def _fill(template: JSON, values: Mapping[str, str]) -> JSON:
    match template:
        case str():
            return template.format_map(values)
        case dict():
            return {key: _fill(value, values) for key, value in template.items()}
        case list():
            return [_fill(value, values) for value in template]
        case _:
            return template
