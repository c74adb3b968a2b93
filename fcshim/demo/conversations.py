"""Synthetic conversations in which the model copies names and values from a command into calls.

Rule: system prompts, calls and results are rendered by fcshim, so that the tiny model is trained on and measured with
exactly the text that fcshim sends.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from fcshim.demo import random_values
from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.render import render_call, render_result, render_system


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """One message of the prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class SyntheticCall:
    """A call that a command asks for, and its result."""

    name: str
    arguments: dict[str, JSON]
    result: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class SyntheticExchange:
    """One command, for which the model has to write `calls` or, if there are none, the text `echo`."""

    command: str
    calls: tuple[SyntheticCall, ...] = ()
    echo: str = ""

    def response(self) -> str:
        """Return the reply to the command: the calls, or the echo."""
        texts = (render_call(FUNCTION_CALL, call.name, random_values.to_json(call.arguments)) for call in self.calls)
        return "\n".join(texts) if self.calls else self.echo

    def results(self) -> str:
        """Return the user turn with the results."""
        return "\n".join(render_result(FUNCTION_CALL, c.name, c.result, is_error=c.failed) for c in self.calls)

    def final_answer(self) -> str:
        """Return the reply to the results."""
        return "\n".join(f"{c.name} {'failed:' if c.failed else 'returned'} {c.result}" for c in self.calls)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The tools that are offered, and the other content of the system prompt."""

    tools: tuple[Tool, ...]
    instructions: str = ""
    choice: ToolChoice = AUTO
    parallel: bool = True

    def system(self) -> str:
        """Return the system message."""
        tools_prompt = render_system(FUNCTION_CALL, self.tools, self.choice, parallel=self.parallel)
        return f"{self.instructions}\n\n{tools_prompt}" if self.instructions else tools_prompt


def make_conversation(rng: Random, max_exchanges: int = 6) -> list[PromptTurn]:
    """Make a conversation: a system prompt and some exchanges, most with results and the reply to them."""
    scenario = make_scenario(rng)
    turns = [PromptTurn("system", scenario.system())]
    for remaining in reversed(range(rng.randint(1, max_exchanges))):
        exchange = make_exchange(rng, scenario)
        turns += [PromptTurn("user", exchange.command), PromptTurn("assistant", exchange.response())]
        if exchange.calls and (remaining or rng.random() < 0.6):
            turns += [PromptTurn("user", exchange.results()), PromptTurn("assistant", exchange.final_answer())]
    return turns


def make_echo_conversation(rng: Random) -> list[PromptTurn]:
    """Make a conversation without tools, in which the model repeats one text."""
    kinds = (random_values.word, random_values.word, random_values.tool_name, lambda r: str(random_values.integer(r)))
    joint = rng.choice([" ", " ", "_", ", "])
    text = joint.join(rng.choice(kinds)(rng) for _ in range(rng.randint(2, 12)))
    return [PromptTurn("user", _echo_command(rng, text)), PromptTurn("assistant", text)]


def make_scenario(rng: Random, *, plain: bool = False) -> Scenario:
    """Make a scenario with one to four tools; `plain` excludes forced tools and disabled parallel calls."""
    tools = tuple({tool.name: tool for tool in (_tool(rng) for _ in range(rng.randint(1, 4)))}.values())
    paragraph = " ".join(f"{random_values.prose(rng, 12)}." for _ in range(rng.randint(1, 3)))
    scenario = Scenario(tools, paragraph if rng.random() < 0.4 else "")
    if plain or rng.random() < 0.9:
        return scenario
    names = tuple(tool.name for tool in rng.sample(tools, rng.randint(0, len(tools))))
    return replace(scenario, choice=ToolChoice(rng.choice(["auto", "required"]), names), parallel=rng.random() < 0.5)


def make_exchange(rng: Random, scenario: Scenario, calls: int | None = None) -> SyntheticExchange:
    """Make a command with `calls` calls: 0 for an echo, None for a random number."""
    if calls is None:
        calls = rng.choices([0, 1, 2, 3], [12, 62, 22, 4])[0] if scenario.parallel else 1
    if calls == 0:
        text = random_values.phrase(rng, 1, 4)
        return SyntheticExchange(_echo_command(rng, text), echo=text)
    allowed = [tool for tool in scenario.tools if tool.name in scenario.choice.names] or scenario.tools
    calls_made = tuple(_call(rng, rng.choice(allowed)) for _ in range(calls))
    joint = rng.choice([" and then ", " then ", ", then ", "; "])
    return SyntheticExchange(joint.join(_call_command(rng, call) for call in calls_made), calls_made)


def _tool(rng: Random) -> Tool:
    names = dict.fromkeys(random_values.parameter_name(rng) for _ in range(rng.choice([0, 1, 1, 2, 2, 3])))
    properties = {name: _property(rng) for name in names}
    schema: dict[str, JSON] = {"type": "object", "properties": properties}
    if rng.random() < 0.6:
        schema["required"] = list(names)[: rng.randint(0, len(names))]
    if rng.random() < 0.1:
        schema["additionalProperties"] = False
    return Tool(random_values.tool_name(rng), random_values.prose(rng, 7) if rng.random() < 0.6 else "", schema)


def _property(rng: Random) -> dict[str, JSON]:
    kind: dict[str, JSON] = {"type": rng.choice(random_values.KINDS)}
    if kind["type"] == "string" and rng.random() < 0.1:
        kind["enum"] = list(dict.fromkeys(random_values.word(rng) for _ in range(rng.randint(2, 3))))
    if rng.random() >= 0.4:
        return kind
    note: dict[str, JSON] = {"description": random_values.prose(rng, 5)}
    return kind | note if rng.random() < 0.6 else note | kind


def _call(rng: Random, tool: Tool) -> SyntheticCall:
    schema = tool.parameters
    required = schema.get("required", ())
    given = [name for name in schema["properties"] if name in required or rng.random() < 0.85]
    arguments = {name: _argument(rng, schema["properties"][name]) for name in given}
    return SyntheticCall(tool.name, arguments, _result(rng), failed=rng.random() < 0.06)


def _argument(rng: Random, schema: dict[str, JSON]) -> JSON:
    return rng.choice(schema["enum"]) if "enum" in schema else random_values.value(rng, schema["type"])


def _result(rng: Random) -> str:
    style = rng.random()
    if style < 0.4:
        return str(random_values.value(rng, rng.choice(["integer", "number", "string"])))
    if style < 0.65:
        return random_values.phrase(rng, 1, 4)
    if style < 0.85:
        return random_values.prose(rng, 8)
    fields = {
        random_values.parameter_name(rng): random_values.value(rng, rng.choice(random_values.KINDS))
        for _ in range(rng.randint(1, 2))
    }
    return random_values.to_json(fields)


def _call_command(rng: Random, call: SyntheticCall) -> str:
    pairs = []
    for name, value in call.arguments.items():
        unquoted = isinstance(value, str) and " " not in value and rng.random() < 0.5
        pairs.append(f"{name}={value if unquoted else random_values.to_json(value)}")
    listed = rng.choice([", ", ", ", " ", " and "]).join(pairs)
    forms = ["call {} with {}", "call {} with {}", "use {} {}", "{} {}", "please call {} {}", "run {} with {}"]
    bare = ["call {}{}", "use {}{}", "please call {}{}", "run {}{}"]
    text = rng.choice(forms if pairs else bare).format(call.name, listed)
    return text[0].upper() + text[1:] if not text.startswith(call.name) and rng.random() < 0.15 else text


def _echo_command(rng: Random, text: str) -> str:
    return f"{rng.choice(['say', 'say', 'repeat', 'echo', 'Say'])} {text}"
