"""The coding agents that `fcshim launch` starts: what each needs to use a proxy, a model and its context.

Rule: the user's own settings stay as they are: an agent gets options, variables, and files in a folder that is deleted
afterwards. In all of them `{url}` is the proxy's address, `{model}` the model, `{context}` the tokens of its context,
`{output}` those of a reply, `{share}` how much of Gemini's context a conversation may fill, and `{folder}` that folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fcshim.events import JSON


@dataclass(frozen=True, slots=True)
class LaunchedClient:
    """One agent: its program, the options before those of the user, variables, and files by their names."""

    program: str
    install: str
    """The command that installs it."""
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, JSON] = field(default_factory=dict)


_CODEX = "model_providers.fcshim"
CLIENTS = {
    "claude": LaunchedClient(
        "claude",
        "npm install -g @anthropic-ai/claude-code",
        ("--model", "{model}"),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ANTHROPIC_API_KEY": "",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
            "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
            "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
            "CLAUDE_CODE_SUBAGENT_MODEL": "{model}",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "{output}",
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "{context}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "codex": LaunchedClient(
        "codex",
        "npm install -g @openai/codex",
        (
            "-c",
            'model_provider="fcshim"',
            "-c",
            f'{_CODEX}.name="fcshim"',
            "-c",
            f'{_CODEX}.base_url="{{url}}/v1"',
            "-c",
            f'{_CODEX}.wire_api="responses"',
            "-c",
            "model_context_window={context}",
            "-m",
            "{model}",
        ),
    ),
    "opencode": LaunchedClient(
        "opencode",
        "npm install -g opencode-ai",
        environment={"OPENCODE_CONFIG": "{folder}/opencode.json"},
        files={
            "opencode.json": {
                "model": "fcshim/{model}",
                "small_model": "fcshim/{model}",
                "provider": {
                    "fcshim": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": "{url}/v1", "apiKey": "none"},
                        "models": {"{model}": {"limit": {"context": "{context}", "output": "{output}"}}},
                    }
                },
            }
        },
    ),
    "qwen": LaunchedClient(
        "qwen",
        "npm install -g @qwen-code/qwen-code",
        ("--auth-type", "openai", "-m", "{model}"),
        {
            "OPENAI_BASE_URL": "{url}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_MODEL": "{model}",
            "QWEN_CODE_SYSTEM_DEFAULTS_PATH": "{folder}/settings.json",
        },
        {"settings.json": {"model": {"generationConfig": {"contextWindowSize": "{context}"}}}},
    ),
    "gemini": LaunchedClient(
        "gemini",
        "npm install -g @google/gemini-cli",
        ("-m", "{model}"),
        {
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_HOME": "{folder}",  # it ignores a file of settings in a folder that others may write to
        },
        {
            ".gemini/settings.json": {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "model": {"compressionThreshold": "{share}"},
            }
        },
    ),
    "pi": LaunchedClient(
        "pi",
        "npm install -g @earendil-works/pi-coding-agent",
        ("--provider", "fcshim", "--model", "{model}"),
        {"PI_CODING_AGENT_DIR": "{folder}"},
        {
            "models.json": {
                "providers": {
                    "fcshim": {
                        "baseUrl": "{url}/v1",
                        "api": "openai-completions",
                        "apiKey": "none",
                        "models": [{"id": "{model}", "contextWindow": "{context}", "maxTokens": "{output}"}],
                    }
                }
            }
        },
    ),
}


def fill(template: JSON, values: Mapping[str, JSON]) -> JSON:
    """Return a template with its values; a text that is nothing but a value's name becomes the value itself."""
    match template:
        case str():
            for name, value in values.items():
                if template == f"{{{name}}}":
                    return value
                template = template.replace(f"{{{name}}}", str(value))
            return template
        case dict():
            return {str(fill(key, values)): fill(value, values) for key, value in template.items()}
        case list():
            return [fill(value, values) for value in template]
        case _:
            return template
