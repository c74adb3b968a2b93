"""Chat templates in Jinja with one peculiarity each, as real models have them: refused roles, opened reasoning, tools.

Rule: apart from that, each is ChatML, so that the demo's model still understands it.
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

# llama-server tests a template with a short system message and works around a refusal, so only long ones are refused.
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
