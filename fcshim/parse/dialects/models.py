"""The default dialect of each model, by patterns of model names.

Rule: the first matching pattern wins; a model gets the dialect that it was trained on, or performs best with.
"""

import fnmatch

from fcshim.parse.dialects import FUNCTION_CALL, Dialect, get_dialect

MODEL_DIALECTS: tuple[tuple[str, str], ...] = (
    # Fine-tunes that are named after their format, whatever their base model.
    ("*hermes*", "hermes"),
    ("*functionary*v3.1*", "functionary_v31"),
    ("*functionary*", "functionary"),
    ("*xlam*", "xlam"),
    ("*toolace*", "pythonic"),
    ("*watt-tool*", "pythonic"),
    ("*firefunction*", "phi4"),
    # Distilled from DeepSeek's answers, without its tool calls; so are the small `deepseek-r1` models of Ollama.
    ("*r1-distill*", "function_call"),
    ("*deepseek-r1*qwen*", "function_call"),
    ("deepseek-r1:671b*", "deepseek_v3"),
    ("deepseek-r1:*", "function_call"),
    ("deepseek-r1*", "deepseek_v3"),
    ("deepseek-v4.1*", "dsml_v41"),
    ("deepseek-v4*", "dsml_v4"),
    ("deepseek-v3.2*", "dsml"),
    ("deepseek-v3.1*", "deepseek_v31"),
    ("deepseek-v3*", "deepseek_v3"),
    ("qwen3-coder*", "qwen3_xml"),
    ("qwen3.[5-9]*", "qwen3_xml"),
    ("qwen*", "hermes"),
    ("qwq*", "hermes"),
    ("*nemotron-3*", "qwen3_xml"),
    ("*nemotron*-nano-*-v2*", "nemotron_json"),
    ("step-3.5*", "qwen3_xml"),
    ("step3.5*", "qwen3_xml"),
    ("step3*", "step3"),
    ("step-3*", "step3"),
    ("mimo-vl*", "hermes"),
    ("mimo*", "qwen3_xml"),
    ("nanbeige*", "qwen3_xml"),
    ("glm-4.[5-9]*", "glm"),
    ("glm-[5-9]*", "glm"),
    ("ling-3*", "glm"),
    ("laguna*", "glm"),
    ("kimi-k3*", "kimi_k3"),
    ("kimi*", "kimi_k2"),
    ("gpt-oss*", "harmony"),
    ("*llama-4*", "llama4"),
    ("llama4*", "llama4"),
    ("*llama-3*", "llama3_json"),
    ("llama3*", "llama3_json"),
    # Their first instruct models were not trained to call tools.
    ("mistral-7b-instruct-v0.[12]*", "function_call"),
    ("mixtral-8x7b*", "function_call"),
    ("mistral*", "mistral"),
    ("mixtral*", "mistral"),
    ("ministral*", "mistral"),
    ("devstral*", "mistral"),
    ("magistral*", "mistral"),
    ("pixtral*", "mistral"),
    ("functiongemma*", "functiongemma"),
    ("gemma-4*", "gemma4"),
    ("gemma4*", "gemma4"),
    # It has no tool format of its own, and almost never succeeds with tags around the JSON (BFCL v4).
    ("gemma*", "bare_json"),
    ("granite-4*", "hermes"),
    ("granite4*", "hermes"),
    ("granite-20b*", "granite_20b_fc"),
    ("granite*", "granite"),
    ("*command-r7b*", "cohere"),
    ("*command-a*", "cohere"),
    ("*command-r*", "command_r"),
    ("internlm*", "internlm2"),
    ("*jamba*", "jamba"),
    ("apriel*", "jamba"),
    ("hunyuan-a13b*", "hunyuan"),
    ("hy-v3*", "hy_v3"),
    ("hunyuan-v3*", "hy_v3"),
    ("dots*", "dots"),
    ("k2-horizon*", "k2_horizon"),
    ("plamo-3*", "plamo3"),
    ("muse*", "muse"),
    ("phi-4-mini*", "phi4"),
    ("phi4-mini*", "phi4"),
    ("apertus*", "apertus"),
    ("longcat*", "longcat"),
    ("ernie-4.5*", "ernie"),
    ("seed-oss*", "seed_oss"),
    ("minimax-m3*", "minimax_m3"),
    ("minimax-m2*", "minimax_m2"),
    ("gigachat*", "gigachat3"),
    ("minicpm5*", "minicpm5"),
    ("minicpm-5*", "minicpm5"),
    ("olmo-3*", "olmo3"),
    ("lfm2*", "lfm2"),
    ("smollm3*", "hermes"),
    ("reka*", "hermes"),
)
"""Patterns (`fnmatch`) of lower-case model names, each with the name of its dialect."""


def dialect_for(model: str) -> Dialect:
    """Return the dialect whose pattern matches the last path component of the model's name; else `function_call`."""
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    found = next(
        (dialect for pattern, dialect in MODEL_DIALECTS if fnmatch.fnmatchcase(name, pattern)), FUNCTION_CALL.name
    )
    return get_dialect(found)
