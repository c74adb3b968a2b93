"""The chat template of the tiny model: plain ChatML without tools.

Rule: the Jinja text, which llama-server reads from the GGUF file, and the function `write_prompt` give the same prompt.
"""

from collections.abc import Iterable

END_OF_TEXT, OPEN, CLOSE = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, OPEN, CLOSE)

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_prompt(messages: Iterable[tuple[str, str]]) -> str:
    """Return the prompt for the assistant's next message after these (role, text) pairs."""
    past = "".join(f"{OPEN}{role}\n{text}{CLOSE}\n" for role, text in messages)
    return f"{past}{OPEN}assistant\n"
