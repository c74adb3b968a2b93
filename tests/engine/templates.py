"""Chat templates that refuse, drop or open what real ones do: jinja texts for a llama-server.

Rule: each is ChatML but for the one thing that it is named for, so that the demo's model still understands it.
Neighbours: `test_doctor` has a server for each.
"""

_TURN = "<|im_start|>{{ m['role'] }}\n{{ m['content'] or '' }}<|im_end|>\n"
_PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
_ALTERNATE = (
    "{% for m in messages %}{% if m['role'] != 'system' and (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
)
_TOOLS = (
    "{% if tools %}<|im_start|>system\nYou may call these tools:\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    'Write a call as <tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call><|im_end|>\n{% endif %}'
)

# Templates that refuse or drop a short system message are found out by llama-server when it starts, and worked around.
_LONG_SYSTEM = "m['role'] == 'system' and m['content'] | length > 99"
REFUSING_SYSTEM = (
    _ALTERNATE
    + ("{% if " + _LONG_SYSTEM + " %}{{ raise_exception('System role not supported') }}{% endif %}")
    + _TURN
    + "{% endfor %}"
    + _PROMPT
)
DROPPING_SYSTEM = (
    "{% for m in messages %}{% if not (" + _LONG_SYSTEM + ") %}" + _TURN + "{% endif %}{% endfor %}" + _PROMPT
)
_THOUGHTS = "{% if m['reasoning_content'] %}<think>\n{{ m['reasoning_content'] }}\n</think>\n{% endif %}"
_OPENED = _PROMPT.replace("assistant\n", "assistant\n<think>\n")
THINKING = "{% for m in messages %}" + _TURN + "{% endfor %}" + _OPENED
THINKING_REPLAYED = (
    "{% for m in messages %}" + _TURN.replace("\n{{", "\n" + _THOUGHTS + "{{") + "{% endfor %}" + _OPENED
)
WITH_TOOLS = _TOOLS + "{% for m in messages %}" + _TURN + "{% endfor %}" + _PROMPT
