"""A hash of the prompt texts that the tiny model was trained on.

Rule: the export writes it into the GGUF file, and a test compares it with the current prompts. It covers the rendered
text, not the source of the templates, so that a template can be refactored.
"""

import hashlib
import itertools

from fcshim.demo.chatml import TEMPLATE
from fcshim.messages import AUTO, Tool, ToolChoice
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.render import render_call, render_result, render_system

KEY = "fcshim.prompt_sha256"
"""The metadata key of the GGUF file that holds the hash."""
_TOOLS = (Tool("f", "Does nothing.", {"type": "object", "properties": {"a": {"type": "string"}}}), Tool("g"))
_CHOICES = (AUTO, ToolChoice("required"), ToolChoice("required", ("f",)), ToolChoice("auto", ("f", "g")))


def prompt_sha256() -> str:
    """Hash the rendered prompts for every kind of request, and the chat template, in a fixed order."""
    variants = itertools.product(_CHOICES, (True, False))
    systems = [render_system(FUNCTION_CALL, _TOOLS, choice, parallel=parallel) for choice, parallel in variants]
    results = [render_result(FUNCTION_CALL, "f", "b", is_error=is_error) for is_error in (False, True)]
    texts = [*systems, render_call(FUNCTION_CALL, "f", '{"a": "b"}'), *results, TEMPLATE]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
