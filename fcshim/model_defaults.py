"""The table of model defaults: name patterns, with the dialect, profile and reasoning tag of the models they match.

Rule: each column has the value of the first matching row that sets it. A model gets the dialect that it was trained on,
or performs best with.
"""

import fnmatch
import functools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """The defaults of one model: the names of its dialect and profile, and the start tag of its reasoning, if any."""

    dialect: str = "function_call"
    profile: str = "default"
    reasoning_tag: str = ""


@dataclass(frozen=True, slots=True)
class ModelPattern:
    """A row: `fnmatch` patterns of lower-case names, separated by blanks, and what they set; None sets nothing.

    Models that reason in a separate channel (gpt-oss, Gemma 4) have no reasoning tag: their servers remove it.
    """

    patterns: str
    dialect: str | None = None
    profile: str | None = None
    reasoning_tag: str | None = None


_Row = ModelPattern
MODEL_PATTERNS: tuple[ModelPattern, ...] = (
    # Fine-tunes that are named after their format, whatever their base model.
    _Row("*hermes*", dialect="hermes"),
    _Row("*functionary*v3.1*", dialect="functionary_v31"),
    _Row("*functionary*", dialect="functionary"),
    _Row("*xlam*", dialect="xlam"),
    _Row("*toolace* *watt-tool*", dialect="pythonic"),
    _Row("*firefunction*", dialect="phi4"),
    # The models of a family that do not reason come before those that do.
    _Row("*non-thinking* *qwen3-coder* *qwen3*-instruct*", reasoning_tag=""),
    # Distilled from DeepSeek's answers, without its tool calls; so are the small `deepseek-r1` models of Ollama.
    _Row("*r1-distill*", dialect="function_call"),
    _Row("*deepseek-r1*qwen*", dialect="function_call"),
    _Row("deepseek-r1:671b*", dialect="deepseek_v3"),
    _Row("deepseek-r1:*", dialect="function_call"),
    _Row("deepseek-r1*", dialect="deepseek_v3"),
    _Row("deepseek-v4.1*", dialect="dsml_v41"),
    _Row("deepseek-v4*", dialect="dsml_v4"),
    _Row("deepseek-v3.2*", dialect="dsml"),
    _Row("deepseek-v3.1*", dialect="deepseek_v31"),
    _Row("deepseek-v3*", dialect="deepseek_v3"),
    _Row("qwen3-coder* qwen3.[5-9]*", dialect="qwen3_xml"),
    # Its template names <tool_call>, one token that the small ones never write (0 of 230 replies); see docs/models.md.
    _Row("qwen2.5-coder*", dialect="function_call"),
    _Row("qwen* qwq*", dialect="hermes"),
    _Row("*nemotron-3*", dialect="qwen3_xml"),
    _Row("*nemotron*-nano-*-v2*", dialect="nemotron_json"),
    _Row("step-3.5* step3.5*", dialect="qwen3_xml"),
    _Row("step3* step-3*", dialect="step3"),
    _Row("mimo-vl*", dialect="hermes"),
    _Row("mimo*", dialect="qwen3_xml"),
    _Row("nanbeige*", dialect="qwen3_xml"),
    _Row("glm-4.[5-9]* glm-[5-9]*", dialect="glm"),
    _Row("glm-4-9b* glm-4-32b* glm4:* glm-z1*", dialect="glm4"),
    _Row("ling-3* laguna*", dialect="glm"),
    _Row("kimi-k3*", dialect="kimi_k3"),
    _Row("kimi*", dialect="kimi_k2"),
    _Row("gpt-oss*", dialect="harmony"),
    _Row("*llama-4* llama4*", dialect="llama4"),
    _Row("*llama-3* llama3*", dialect="llama3_json"),
    # Their first instruct models were not trained to call tools.
    _Row("mistral-7b-instruct-v0.[12]*", dialect="function_call", profile="no-system"),
    _Row("mixtral-8x7b*", dialect="function_call"),
    _Row("mixtral-8x*-v0.1*", profile="no-system"),
    _Row("mistral* mixtral* ministral* devstral* magistral* pixtral*", dialect="mistral"),
    _Row("*magistral* *ministral*reasoning*", reasoning_tag="[THINK]"),
    _Row("functiongemma*", dialect="functiongemma"),
    _Row("gemma-4* gemma4*", dialect="gemma4"),
    # It has no tool format of its own, and almost never succeeds with tags around the JSON (BFCL v4).
    _Row("gemma*", dialect="bare_json"),
    _Row("gemma-1.* gemma-2* gemma-?b* gemma2*", profile="no-system"),
    _Row("granite-4* granite4*", dialect="hermes"),
    _Row("granite-20b*", dialect="granite_20b_fc"),
    _Row("granite*", dialect="granite"),
    _Row("*command-r7b* *command-a*", dialect="cohere"),
    _Row("*command-a-reasoning*", reasoning_tag="<|START_THINKING|>"),
    _Row("*command-r*", dialect="command_r"),
    _Row("internlm*", dialect="internlm2"),
    _Row("*jamba* apriel*", dialect="jamba"),
    _Row("hunyuan-a13b*", dialect="hunyuan"),
    _Row("hy-v3* hunyuan-v3* hy3*", dialect="hy_v3"),
    _Row("hy-v4* hunyuan-v4* hy4*", dialect="hy_v4"),
    _Row("telechat3* telechat-3* telechat4* telechat-4* xing4* xing-4*", dialect="telechat4"),
    _Row("dots*", dialect="dots"),
    _Row("k2-horizon*", dialect="k2_horizon"),
    _Row("plamo-3*", dialect="plamo3"),
    _Row("muse*", dialect="muse"),
    _Row("phi-4-mini* phi4-mini*", dialect="phi4"),
    _Row("apertus*", dialect="apertus"),
    _Row("*apertus*", reasoning_tag="<|inner_prefix|>"),
    _Row("iquest-q1*", dialect="iquest_q1"),
    _Row("solar-open-2* solar-open2*", dialect="solar_open2"),
    _Row("longcat*", dialect="longcat"),
    _Row("*longcat*thinking*", reasoning_tag="<longcat_think>"),
    _Row("ernie-4.5*", dialect="ernie"),
    _Row("seed-oss*", dialect="seed_oss"),
    _Row("*seed-oss*", reasoning_tag="<seed:think>"),
    _Row("minimax-m3*", dialect="minimax_m3"),
    _Row("*minimax-m3*", reasoning_tag="<mm:think>"),
    _Row("minimax-m2*", dialect="minimax_m2"),
    _Row("gigachat3.1*", dialect="gigachat31"),
    _Row("gigachat3.5* gigachat-3.5*", dialect="gigachat35"),
    _Row("gigachat*", dialect="gigachat3"),
    _Row("inkling*", dialect="inkling"),
    _Row("sarashina*", dialect="sarashina"),
    _Row("minicpm5* minicpm-5*", dialect="minicpm5"),
    _Row("olmo-3*", dialect="olmo3"),
    _Row("lfm2*", dialect="lfm2"),
    _Row("smollm3* reka*", dialect="hermes"),
    # Models that reason with the usual tag; those above have tags of their own, or do not reason.
    _Row("*deepseek-r1* *r1-distill* *deepseek-v3.[12]* *deepseek-v4*", reasoning_tag="<think>"),
    _Row("*qwen3* *qwq* *glm-4.[5-9]* *glm-[5-9]* *minimax-m2* *nemotron*", reasoning_tag="<think>"),
    _Row("*smollm3* *hunyuan-a13b* step*3* mimo* olmo-3*-think* *thinking* *reasoning*", reasoning_tag="<think>"),
)


@functools.lru_cache(maxsize=256)
def defaults_for(model: str) -> ModelDefaults:
    """Return the defaults of a model, by the last component of its name."""
    rows = _matching_rows(model)
    set_values = {
        column: value
        for row in reversed(rows)
        for column in ModelDefaults.__slots__
        if (value := getattr(row, column)) is not None
    }
    return ModelDefaults(**set_values)


def has_defaults(model: str) -> bool:
    """Return whether the table knows the model, by the last component of its name."""
    return bool(_matching_rows(model))


@functools.lru_cache(maxsize=256)
def _matching_rows(model: str) -> tuple[ModelPattern, ...]:
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    return tuple(row for row in MODEL_PATTERNS if any(fnmatch.fnmatchcase(name, each) for each in row.patterns.split()))
