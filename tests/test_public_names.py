"""The public names of `fcshim`, and the cost of its import."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import fcshim

NAMES = [
    "DIALECTS",
    "ArgumentWriter",
    "AssistantMessage",
    "BodyReader",
    "BodyStatus",
    "CallError",
    "CallSink",
    "Client",
    "Coercion",
    "ConfigError",
    "Dialect",
    "Error",
    "Event",
    "FcshimError",
    "FunctionTool",
    "LimitError",
    "Limits",
    "MediaPart",
    "Message",
    "MissingExtraError",
    "ModelOutputError",
    "NotStrictError",
    "Prepared",
    "Reasoning",
    "Reply",
    "ReplyStream",
    "RequestError",
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
    "ToolChoice",
    "ToolError",
    "ToolMessage",
    "ToolResult",
    "UpstreamError",
    "Usage",
    "UserMessage",
    "check_dialect",
    "event_to_dict",
    "fold",
    "get_dialect",
    "load_dialect",
    "parse",
    "prepare",
]


def modules_after(statement):
    """Return the modules that a new Python process has imported after this statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout.decode().split())


def test_the_public_names_are_listed():
    assert NAMES == fcshim.__all__


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_importable(name):
    assert getattr(fcshim, name) is not None
    assert name in dir(fcshim)


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
