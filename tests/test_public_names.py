"""The public names of fcshim, which examples import and no others, and the cost of its import."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import fcshim

PUBLIC = {
    "fcshim": [
        "AssistantMessage",
        "CallError",
        "Client",
        "Error",
        "Event",
        "FcshimError",
        "FunctionTool",
        "MediaPart",
        "Message",
        "Prepared",
        "Reasoning",
        "Reply",
        "ReplyStream",
        "RunResult",
        "Stop",
        "StopReason",
        "StreamParser",
        "SyncClient",
        "SystemMessage",
        "Text",
        "TextPart",
        "Timeouts",
        "Tool",
        "ToolCall",
        "ToolCallChunk",
        "ToolCallEnd",
        "ToolCallStart",
        "ToolMessage",
        "ToolResult",
        "Usage",
        "UserMessage",
        "event_to_dict",
        "fold",
        "load_dialect",
        "parse",
        "prepare",
    ],
    "fcshim.agent": [
        "DEFAULT_MAX_ROUNDS",
        "Agent",
        "AgentEvent",
        "Ask",
        "Round",
        "RoundEnded",
        "Sessions",
        "SubAgents",
        "rounds",
        "total_usage",
    ],
    "fcshim.errors": [
        "ConfigError",
        "FcshimError",
        "MissingExtraError",
        "ModelOutputError",
        "RequestError",
        "StoreError",
        "ToolError",
        "UpstreamError",
    ],
    "fcshim.events": [
        "JSON",
        "CallError",
        "CallErrorKind",
        "Coercion",
        "Error",
        "Event",
        "Reasoning",
        "Stop",
        "StopReason",
        "Text",
        "ToolCallChunk",
        "ToolCallEnd",
        "ToolCallStart",
        "Usage",
        "WebErrorCode",
        "WebResult",
        "WebToolUse",
        "event_to_dict",
        "id_source",
        "total_usage",
    ],
    "fcshim.ext": [
        "DIALECTS",
        "ArgumentWriter",
        "Body",
        "BodyReader",
        "BodyStatus",
        "CallMarkers",
        "CallSink",
        "Dialect",
        "LimitError",
        "Limits",
        "Markers",
        "NotStrictError",
        "TurnMarkup",
        "check_dialect",
        "get_dialect",
    ],
    "fcshim.mcp": [
        "HttpTransport",
        "InProcessTransport",
        "Manager",
        "McpServerConfig",
        "NpmTransport",
        "Pins",
        "StdioTransport",
        "load_servers",
    ],
    "fcshim.messages": [
        "AssistantMessage",
        "Content",
        "MediaPart",
        "Message",
        "Part",
        "SystemMessage",
        "TextPart",
        "Tool",
        "ToolCall",
        "ToolChoice",
        "ToolMessage",
        "UserMessage",
        "text_of",
    ],
    "fcshim.demo.text_generator": ["EmbeddedGenerator"],
    "fcshim.openai": ["ChoiceEncoder", "Messages", "choices", "deltas", "message"],
    "fcshim.testing": [
        "MUTATIONS",
        "ConformanceCase",
        "MakeParser",
        "Mutant",
        "ReaderResult",
        "Seed",
        "TextParser",
        "judge",
        "load",
        "make_seed",
        "read",
        "shrink",
        "splits",
    ],
    "fcshim.testing.small_case": ["SmallCase", "small_case"],
    "fcshim.tools": [
        "AnyTool",
        "CallContext",
        "CallEvent",
        "CallFinished",
        "CallProgressed",
        "CallStarted",
        "Executor",
        "FunctionTool",
        "PermissionDecision",
        "PermissionRequest",
        "PermissionRule",
        "Permissions",
        "Registry",
        "ToolProgress",
        "ToolResult",
        "Traits",
        "check_rules",
        "parse_rules",
    ],
}
"""The modules that programs import, with their names: `fcshim.ext` is for extension, the others for use."""
PLUGINS = {
    ("fcshim.integrations.langchain", "ChatFcshim"),
    ("fcshim.integrations.llama_cpp", "FcshimChatHandler"),
    ("fcshim.integrations.pydantic_ai", "FcshimModel"),
    ("fcshim.integrations.response_template", "response_template"),
    ("fcshim.integrations.transformers", "GrammarLogitsProcessor"),
    ("fcshim.integrations.transformers", "TransformersGenerator"),
}
"""What needs a framework, and is imported in the environment of that (`tests/integrations`)."""
APPLICATIONS = {
    "fcshim.integrations.ray:app",
    "fcshim.server:create_app_from_env",
    "fcshim.testing.reader:make_own_parser",
}
"""What other servers load by name."""
ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").rglob("*.*ml")),
]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def modules_after(statement):
    """Return the modules that a new Python process has imported after this statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout.decode().split())


def imports_of(source: str) -> Iterator[tuple[str, str]]:
    """Yield each module of fcshim that a program imports, with the name that it takes; empty for the module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fcshim":
            yield from ((str(node.module), each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] == "fcshim")


def documented_imports() -> dict[tuple[str, str], str]:
    """Return the imports of all examples, each with a page that has it."""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"```(?:python|py)\b[^\n]*\n(.*?)```", text, re.DOTALL)
        commands = [line.replace("\\n", "\n") for line in re.findall(r"python3? -c [\"'](.*?)[\"']`", text)]
        for source in (*blocks, *commands):
            found |= dict.fromkeys(imports_of(source), page.name)
    for program in (ROOT / "examples").rglob("*.py"):
        found |= dict.fromkeys(imports_of(program.read_text(encoding="utf-8")), program.name)
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_listed(module):
    assert PUBLIC[module] == importlib.import_module(module).__all__


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in PUBLIC for name in PUBLIC[module]])
def test_every_public_name_is_importable(module, name):
    assert getattr(importlib.import_module(module), name) is not None


def test_the_names_for_use_are_in_the_directory_of_fcshim():
    assert set(PUBLIC["fcshim"]) <= set(dir(fcshim))
    assert len(PUBLIC["fcshim"]) < 40


def test_examples_import_public_names_only():
    """A name that a page needs is public, or the page does without it."""
    imported = documented_imports()
    private = {
        f"{page}: {module} {name}"
        for (module, name), page in imported.items()
        if (module, name) not in PLUGINS and name not in PUBLIC.get(module, ()) and not (module in PUBLIC and not name)
    }

    assert set() == private
    assert {"fcshim", "fcshim.agent", "fcshim.events", "fcshim.ext", "fcshim.mcp", "fcshim.messages"} <= {
        module for module, _ in imported
    }


def test_an_import_of_a_private_name_is_found():
    source = (
        "import fcshim.client\nfrom fcshim.parse import stream\nfrom fcshimmer import x\ndef f():\n    import fcshim"
    )

    assert [("fcshim.client", ""), ("fcshim.parse", "stream"), ("fcshim", "")] == list(imports_of(source))


def test_the_applications_that_pages_name_exist():
    named = {name for page in PAGES for name in re.findall(r"\bfcshim(?:\.\w+)+:\w+", page.read_text(encoding="utf-8"))}

    assert APPLICATIONS == named
    for name in named:
        module, _, attribute = name.partition(":")
        source = (ROOT / module.replace(".", "/")).with_suffix(".py")
        source = source if source.exists() else source.with_suffix("") / "__init__.py"
        assert re.search(rf"\b{attribute}\b", source.read_text(encoding="utf-8"))


def test_the_version_is_the_installed_one():
    assert version("fcshim") == fcshim.__version__


def test_any_other_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Parser'"):
        _ = fcshim.Parser


def test_parse_stays_the_function_whatever_is_imported_later():
    program = "import fcshim, fcshim.client; from fcshim.parse.stream import parse; assert fcshim.parse is parse"

    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


def test_importing_fcshim_imports_nothing_for_networks():
    heavy = {"aiohttp", "asyncio", "docstring_parser", "httpx", "jinja2", "mcp", "ssl", "uvicorn"}

    assert set() == heavy & modules_after("import fcshim")


def test_the_client_is_imported_when_it_is_named():
    assert "fcshim.client" not in modules_after("import fcshim")
    assert "fcshim.client" in modules_after("from fcshim import Client")
