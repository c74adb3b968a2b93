"""The client of the demo: sends a question with a tool, runs the call, sends the result back.

This is code that any user of the OpenAI client could have written; it does not depend on fcshim.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fcshim.events import JSON

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionMessage

COMMAND = "call add_numbers with first=19, second=23"
"""What the tiny model can answer: it copies names and values."""
QUESTION = "What is 4817 plus 2963?"
"""What a real model is asked: small ones cannot add such numbers without the tool."""


def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


TOOL: JSON = {
    "type": "function",
    "function": {
        "name": "add_numbers",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
            "required": ["first", "second"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call that was received, and what the function returned."""

    name: str
    arguments: dict[str, JSON]
    result: str


class ToolCallingClient:
    """One conversation, which begins with `question`; `messages` are those of the next request."""

    def __init__(self, client: "AsyncOpenAI", model: str, question: str) -> None:
        self._client = client
        self._model = model
        self.messages: list[JSON] = [{"role": "user", "content": question}]

    async def ask(self) -> "ChatCompletionMessage":
        """Send the conversation with the tool, and append the reply to it. Raises `openai.OpenAIError`."""
        from openai import LengthFinishReasonError  # noqa: PLC0415 - an optional package

        stream = self._client.chat.completions.stream(
            model=self._model, messages=self.messages, tools=[TOOL], temperature=0, max_tokens=1000
        )
        async with stream as events:
            try:
                completion: ChatCompletion = await events.get_final_completion()
            except LengthFinishReasonError as error:  # a small model may never end
                completion = error.completion
        message = completion.choices[0].message
        self.messages.append(message.to_dict())
        return message

    def run_tools(self, message: "ChatCompletionMessage") -> list[ToolRun]:
        """Run the calls of a reply, and append the results to the conversation."""
        runs = []
        for call in message.tool_calls or ():
            if call.type == "function" and call.function.name == add_numbers.__name__:
                arguments = json.loads(call.function.arguments)
                run = ToolRun(call.function.name, arguments, str(add_numbers(**arguments)))
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": run.result})
                runs.append(run)
        return runs
