"""The final answer as a tool, whose arguments are a value of the type that the caller wants.

A call is what models write most reliably, and what is repaired, constrained and asked for again; a value of
another type is an error result, which the model reads and corrects.
"""

import json
from collections.abc import Mapping

from fcshim.errors import ModelOutputError
from fcshim.events import JSON
from fcshim.messages import TextPart, Tool
from fcshim.tools import CallContext, ToolResult, Traits
from fcshim.tools.base import NO_CONTEXT
from fcshim.tools.result import failed
from fcshim.tools.value_type import MistakesError, converter, schemas_of

FINAL_ANSWER = "final_answer"
_DESCRIPTION = "Give the final answer. Call it when you know the answer; it ends the task."
_VALUE = "value"
"""The parameter that holds an answer that is not an object."""


class OutputTool:
    """The tool that ends a run; `value` is the answer once `answered` is true.

    Raises `ConfigError` for a type without a JSON Schema.
    """

    def __init__(self, output_type: JSON) -> None:
        (schema,), definitions = schemas_of([output_type])
        self._is_object = schema.get("type") == "object"
        self._convert = converter(output_type)
        wrapped = {"type": "object", "properties": {_VALUE: schema}, "required": [_VALUE]}
        parameters = (schema if self._is_object else wrapped) | ({"$defs": definitions} if definitions else {})
        self.definition = Tool(FINAL_ANSWER, _DESCRIPTION, parameters)
        self.traits = Traits(sensitivity="safe", reads_only=True, source="output")
        self.answered = False
        self.value: JSON = None

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:  # noqa: ARG002 - the protocol's
        """Take the answer; a mistake in it is a result with `is_error`."""
        if self.answered:
            return failed("The answer was given already.")
        answer = dict(arguments) if self._is_object else arguments.get(_VALUE)
        try:
            self.value = self._convert(answer)
        except MistakesError as error:
            return failed(f"Wrong arguments for {FINAL_ANSWER}:\n" + "\n".join(f"- {each}" for each in error.mistakes))
        self.answered = True
        return ToolResult((TextPart(json.dumps(answer, ensure_ascii=False)),), final=True)

    def value_or_text(self, text: str) -> JSON:
        """Return the answer; where the model wrote it as text instead, that must be JSON of the type.

        Raises `ModelOutputError` (kind `invalid_output`).
        """
        if self.answered:
            return self.value
        try:
            return self._convert(json.loads(text))
        except (ValueError, RecursionError) as error:
            message = f"the answer is not of the wanted type: {error}"
            raise ModelOutputError(message[:500], kind="invalid_output", raw=text) from error
