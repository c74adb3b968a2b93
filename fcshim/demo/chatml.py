"""The chat template of the tiny model: plain ChatML, which knows nothing of tools.

Rule: one format in two forms, the Jinja text that a `llama-server` reads from the GGUF file and the function used here.
Neighbours: `recipe` trains in this format, `chat_request` writes prompts in it.
"""

from collections.abc import Iterable

END_OF_TEXT, OPEN, CLOSE = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, OPEN, CLOSE)

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_prompt(messages: Iterable[tuple[str, str]]) -> str:
    """Write (role, text) pairs as the prompt for the assistant's next message."""
    past = "".join(f"{OPEN}{role}\n{text}{CLOSE}\n" for role, text in messages)
    return f"{past}{OPEN}assistant\n"
