"""The coding agents: their packages, how each is started without a terminal, and what their tools are called.

Rule: telemetry and updates are off by each agent's own settings; keys are words that open nothing. In commands,
variables and settings, `{url}` is the proxy's address, `{base}` the base URL of the API, `{api}` the agent's own name
of the API, `{model}` the model and `{task}` the user's message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fcshim.events import JSON
from tests.clients.agents.model import Vocabulary

_PATCH = "*** Begin Patch\n*** Update File: {path}\n@@\n-{copied}\n+{text}\n*** End Patch\n"
_FILE = "{folder}/{path}"
_REPLACE = """\
cat > .old <<'TEXT'
{copied}
TEXT
cat > .new <<'TEXT'
{text}
TEXT
python3 -c "
old, new = (open(name).read()[:-1] for name in ('.old', '.new'))
text = open('{path}').read()
open('{path}', 'w').write(text.replace(old, new))"
"""


@dataclass(frozen=True)
class Agent:
    """One agent, and how it is run."""

    package: str
    program: str
    start: tuple[str, ...]
    resume: tuple[str, ...]
    """The arguments that go on with the last session; empty where that needs a terminal."""
    apis: Mapping[str, str]
    """fcshim's name of each API, and the agent's own."""
    tools: Vocabulary
    models: tuple[str, ...] = ("m",)
    """Names of models by which the agent chooses different tools."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, JSON] = field(default_factory=dict)
    """Settings, by their paths below the home folder; what is not text is written as JSON."""
    json_results: bool = False
    """Its tools answer in JSON."""
    registry: Literal["npm", "pypi"] = "npm"


AGENTS = {
    "codex": Agent(
        package="@openai/codex",
        program="codex",
        start=("exec", "--skip-git-repo-check", "{task}"),
        resume=("exec", "resume", "--last", "--skip-git-repo-check", "{task}"),
        apis={"openai_responses": "responses"},
        models=("m", "gpt-5.5"),
        tools={
            "create": [
                ("apply_patch", {"input": "*** Begin Patch\n*** Add File: {path}\n{added}\n*** End Patch\n"}),
                ("exec_command", {"cmd": "cat > {path} <<'TEXT'\n{text}TEXT\n"}),
            ],
            "run": [("exec_command", {"cmd": "{command}"})],
            "read": [("exec_command", {"cmd": "cat {path}"})],
            "edit": [
                ("apply_patch", {"input": _PATCH}),
                ("exec_command", {"cmd": f"apply_patch <<'TEXT'\n{_PATCH}TEXT\n"}),
            ],
        },
        files={
            ".codex/config.toml": """\
model = "{model}"
model_provider = "shim"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.shim]
name = "shim"
base_url = "{base}"
wire_api = "{api}"
"""
        },
    ),
    "claude_code": Agent(
        package="@anthropic-ai/claude-code",
        program="claude",
        start=("-p", "{task}", "--model", "{model}", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"),
        resume=(
            "-c",
            "-p",
            "{task}",
            "--model",
            "{model}",
            "--permission-mode",
            "acceptEdits",
            "--allowedTools",
            "Bash",
        ),
        apis={"anthropic": ""},
        tools={
            "create": [("Write", {"file_path": _FILE, "content": "{text}"})],
            "run": [("Bash", {"command": "{command}", "description": "Run"})],
            "read": [("Read", {"file_path": _FILE})],
            "edit": [("Edit", {"file_path": _FILE, "old_string": "{copied}", "new_string": "{text}"})],
        },
        environment={
            "ANTHROPIC_BASE_URL": "{base}",
            "ANTHROPIC_API_KEY": "none",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "gemini_cli": Agent(
        package="@google/gemini-cli",
        program="gemini",
        start=("-p", "{task}", "-y", "--skip-trust", "-m", "{model}"),
        resume=("-r", "latest", "-p", "{task}", "-y", "--skip-trust", "-m", "{model}"),
        apis={"gemini": ""},
        models=("gemini-2.5-pro",),
        tools={
            "create": [("write_file", {"file_path": "{path}", "content": "{text}"})],
            "run": [("run_shell_command", {"command": "{command}"})],
            "read": [("read_file", {"file_path": "{path}"})],
            "edit": [
                (
                    "replace",
                    {"file_path": "{path}", "instruction": "Edit", "old_string": "{copied}", "new_string": "{text}"},
                )
            ],
        },
        environment={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{url}"},
        files={
            ".gemini/settings.json": {
                "telemetry": {"enabled": False},
                "privacy": {"usageStatisticsEnabled": False},
                "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
                "security": {"auth": {"selectedType": "gemini-api-key"}},
            }
        },
    ),
    "opencode": Agent(
        package="opencode-ai",
        program="opencode",
        start=("run", "--pure", "-m", "shim/{model}", "{task}"),
        resume=("run", "--pure", "-c", "-m", "shim/{model}", "{task}"),
        apis={
            "openai_chat": "openai-compatible",
            "openai_responses": "openai",
            "anthropic": "anthropic",
            "gemini": "google",
        },
        tools={
            "create": [("write", {"filePath": _FILE, "content": "{text}"})],
            "run": [("bash", {"command": "{command}", "description": "Run"})],
            "read": [("read", {"filePath": _FILE})],
            "edit": [("edit", {"filePath": _FILE, "oldString": "{copied}", "newString": "{text}"})],
        },
        environment={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        files={
            ".config/opencode/opencode.json": {
                "autoupdate": False,
                "share": "disabled",
                "permission": "allow",
                "provider": {
                    "shim": {
                        "npm": "@ai-sdk/{api}",
                        "options": {"baseURL": "{versioned}", "apiKey": "none"},
                        "models": {"{model}": {"limit": {"context": 100_000, "output": 10_000}}},
                    }
                },
            }
        },
    ),
    "qwen_code": Agent(
        package="@qwen-code/qwen-code",
        program="qwen",
        start=("-y", "--auth-type", "{api}", "-m", "{model}", "{task}"),
        resume=("-c", "-y", "--auth-type", "{api}", "-m", "{model}", "-p", "{task}"),
        apis={
            "openai_chat": "openai",
            "openai_responses": "openai-responses",
            "anthropic": "anthropic",
            "gemini": "gemini",
        },
        tools={
            "create": [("write_file", {"file_path": _FILE, "content": "{text}"})],
            "run": [("run_shell_command", {"command": "{command}", "is_background": False})],
            "read": [("read_file", {"file_path": _FILE})],
            "edit": [("edit", {"file_path": _FILE, "old_string": "{copied}", "new_string": "{text}"})],
        },
        environment={
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "{base}",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": "{url}",
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": "{url}",
        },
        files={
            ".qwen/settings.json": {
                "telemetry": {"enabled": False},
                "privacy": {"usageStatisticsEnabled": False},
                "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            }
        },
    ),
    "cline": Agent(
        package="cline",
        program="cline",
        start=("--provider", "{api}", "--model", "{model}", "{task}"),
        resume=(),
        apis={"openai_chat": "openai-compatible", "anthropic": "anthropic"},
        tools={
            "create": [("editor", {"path": _FILE, "new_text": "{text}"})],
            "run": [("run_commands", {"commands": ["{command}"]})],
            "read": [("read_files", {"files": [{"path": _FILE}]})],
            "edit": [("editor", {"path": _FILE, "old_text": "{copied}", "new_text": "{text}"})],
        },
        environment={"CLINE_SESSION_BACKEND_MODE": "local"},
        files={
            ".cline/data/settings/global-settings.json": {"telemetryOptOut": True, "autoUpdateEnabled": False},
            ".cline/data/settings/providers.json": {
                "version": 1,
                "lastUsedProvider": "{api}",
                "modes": {},
                "providers": {
                    "{api}": {
                        "settings": {
                            "provider": "{api}",
                            "apiKey": "none",
                            "model": "{model}",
                            "baseUrl": "{versioned}",
                        },
                        "updatedAt": "2026-01-01T00:00:00.000Z",
                        "tokenSource": "manual",
                    }
                },
            },
        },
        json_results=True,
    ),
    "pi": Agent(
        package="@earendil-works/pi-coding-agent@<0.99",
        program="pi",
        start=("-p", "--offline", "--no-approve", "--provider", "shim", "--model", "{model}", "{task}"),
        resume=("-c", "-p", "--offline", "--no-approve", "--provider", "shim", "--model", "{model}", "{task}"),
        apis={
            "openai_chat": "openai-completions",
            "openai_responses": "openai-responses",
            "anthropic": "anthropic-messages",
            "gemini": "google-generative-ai",
        },
        tools={
            "create": [("write", {"path": "{path}", "content": "{text}"})],
            "run": [("bash", {"command": "{command}"})],
            "read": [("read", {"path": "{path}"})],
            "edit": [("edit", {"path": "{path}", "edits": [{"oldText": "{copied}", "newText": "{text}"}]})],
        },
        environment={"PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"},
        files={
            ".pi/agent/models.json": {
                "providers": {
                    "shim": {"baseUrl": "{base}", "api": "{api}", "apiKey": "none", "models": [{"id": "{model}"}]}
                }
            }
        },
    ),
    "continue": Agent(
        package="@continuedev/cli",
        program="cn",
        start=("-p", "--auto", "{task}"),
        resume=("--resume", "-p", "--auto", "{task}"),
        apis={"openai_chat": "openai", "anthropic": "anthropic"},
        tools={
            "create": [("Write", {"filepath": _FILE, "content": "{text}"})],
            "run": [("Bash", {"command": "{command}"})],
            "read": [("Read", {"filepath": _FILE})],
            "edit": [("Edit", {"file_path": _FILE, "old_string": "{copied}", "new_string": "{text}"})],
        },
        environment={"CONTINUE_CLI_ENABLE_TELEMETRY": "0", "CONTINUE_METRICS_ENABLED": "0"},
        files={
            ".continue/config.yaml": """\
name: local
version: 1.0.0
schema: v1
models:
  - name: local
    provider: {api}
    model: {model}
    apiBase: {versioned}
    apiKey: none
    roles: [chat, edit, apply]
    capabilities: [tool_use]
"""
        },
    ),
    "mini_swe_agent": Agent(
        package="mini-swe-agent",
        program="mini",
        registry="pypi",
        start=("-t", "{task}", "-y", "--exit-immediately", "-l", "0", "-m", "openai/{model}"),
        resume=(),
        apis={"openai_chat": ""},
        tools={
            "create": [("bash", {"command": "cat > {path} <<'TEXT'\n{text}TEXT\n"})],
            "run": [("bash", {"command": "{command}"})],
            "read": [("bash", {"command": "cat {path}"})],
            "edit": [("bash", {"command": _REPLACE})],
            "finish": [("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})],
        },
        environment={
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": "{base}",
            "LITELLM_LOCAL_MODEL_COST_MAP": "1",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
        },
        json_results=True,
    ),
}
"""Versions of pi from 0.99 on depend on packages that registries did not have when this was written."""
