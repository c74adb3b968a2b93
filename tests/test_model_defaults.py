"""The table of model defaults."""

import pytest

from fcshim.errors import ConfigError
from fcshim.model_defaults import MODEL_PATTERNS, ModelDefaults, defaults_for
from fcshim.parse.dialects import DIALECTS, HERMES
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import PROFILES


@pytest.mark.parametrize(
    ("model", "dialect"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_xml"),
        ("qwen3.5:9b", "qwen3_xml"),
        ("Qwen2.5-7B-Instruct-Q4_K_M.gguf", "hermes"),
        ("hf.co/bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M", "hermes"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "hermes"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3_json"),
        ("Meta-Llama-3-8B-Instruct.Q8_0.gguf", "llama3_json"),
        ("llama3.2:3b", "llama3_json"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4"),
        ("C:\\models\\Mistral-Nemo-Instruct-2407.gguf", "mistral"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "function_call"),
        ("devstral:24b", "mistral"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v31"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "function_call"),
        ("deepseek-r1:8b", "function_call"),
        ("deepseek-r1:671b", "deepseek_v3"),
        ("moonshotai/Kimi-K2-Instruct", "kimi_k2"),
        ("zai-org/GLM-4.5-Air", "glm"),
        ("gpt-oss:20b", "harmony"),
        ("gemma3:4b", "bare_json"),
        ("ibm-granite/granite-3.3-8b-instruct", "granite"),
        ("granite4:3b", "hermes"),
        ("CohereLabs/c4ai-command-r7b-12-2024", "cohere"),
        ("command-r-plus", "command_r"),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron_json"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", "qwen3_xml"),
        ("microsoft/Phi-4-mini-instruct", "phi4"),
        ("muse-12b", "muse"),
        ("THUDM/GLM-4-32B-0414", "glm4"),
        ("glm-z1-9b-0414", "glm4"),
        ("glm4:9b", "glm4"),
        ("zai-org/GLM-4.6", "glm"),
        ("GigaChat3-10B-A1.8B", "gigachat3"),
        ("ai-sage/GigaChat3.1-10B-A1.8B", "gigachat31"),
        ("inkling-8b", "inkling"),
        ("sbintuitions/sarashina2.2-3b-instruct", "sarashina"),
        ("something-else", "function_call"),
        ("", "function_call"),
    ],
)
def test_the_model_name_selects_the_dialect(model: str, dialect: str) -> None:
    assert dialect == defaults_for(model).dialect


def test_each_column_has_its_own_first_match() -> None:
    assert ModelDefaults("hermes", reasoning_tag="<think>") == defaults_for("Qwen/Qwen3-8B")
    assert ModelDefaults("qwen3_xml") == defaults_for("qwen3-coder-thinking")
    assert ModelDefaults("mistral", reasoning_tag="[THINK]") == defaults_for("magistral-small")
    assert ModelDefaults("bare_json", "no-system") == defaults_for("gemma-2-9b")


def test_every_row_names_a_dialect_and_a_profile_of_the_tables() -> None:
    assert {row.dialect for row in MODEL_PATTERNS} <= {*DIALECTS, None}
    assert {row.profile for row in MODEL_PATTERNS} <= {*PROFILES, None}


@pytest.mark.parametrize("column", ["dialect", "profile", "reasoning_tag"])
def test_patterns_are_unique_and_in_lower_case(column: str) -> None:
    rows = [row.patterns.split() for row in MODEL_PATTERNS if getattr(row, column) is not None]
    patterns = [pattern for row in rows for pattern in row]

    assert len(set(patterns)) == len(patterns)
    assert patterns == [pattern.lower() for pattern in patterns]


def test_a_setting_overrides_the_model_name() -> None:
    assert "mistral" == chosen_dialect("auto", "mistral-nemo").name
    assert "hermes" == chosen_dialect("hermes", "mistral-nemo").name
    assert chosen_dialect(HERMES, "mistral-nemo") is HERMES


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'hermes'"):
        chosen_dialect("hermess", "x")
