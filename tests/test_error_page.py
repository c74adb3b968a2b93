"""The page by error message: what it quotes of fcshim is what fcshim writes, and its options exist."""

import json
import re
from pathlib import Path

import pytest

from fcshim.cli.entry import COMMANDS
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH, read_error
from fcshim.config.table import settings

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
SOURCES = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "fcshim").rglob("*.py"))
FIRST_OF_FCSHIM = "## fcshim does not reach the server"
OTHERS = {"--jinja", "--parallel", "--mmproj", "--enable-auto-tool-choice", "--tool-call-parser", "--model"}
"""Options of other programs."""
OF_OTHERS = (
    "The call stands in the text",
    "There's an issue",
    "Thinking models",
    "The same call",
    "The model does not",
)


def _headings(text: str) -> list[str]:
    return re.findall(r"^### (.*)$", text, re.MULTILINE)


def _own_messages() -> list[str]:
    own = PAGE[PAGE.index(FIRST_OF_FCSHIM) :]
    headings = [heading for heading in _headings(own) if not heading.lstrip("`").startswith(OF_OTHERS)]
    return [message for heading in headings for message in re.findall(r"`([^`]*)`", heading)]


@pytest.mark.parametrize("message", _own_messages())
def test_a_message_of_fcshim_is_in_its_code(message: str) -> None:
    code = re.sub(r"\"\s+f?\"", "", SOURCES)
    parts = [part for part in re.split(r"\.\.\.|\b\d+(?:\.\d+)*\b|'/v1[^']*'|: --", message) if len(part.strip()) > 3]
    if message.startswith("1 tool offered"):
        parts = [" offered, no call: "]

    assert parts
    assert [] == [part for part in parts if part.strip(" ():;,'") not in code]


def test_the_page_has_at_least_twenty_messages_and_each_is_answered() -> None:
    entries = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]

    assert len(entries) >= 20
    assert [] == [entry for entry in entries if len(entry.split("\n\n")[1].split()) < 12]


def test_its_options_exist() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))

    assert set() == named - {setting.flag for setting in settings()} - OTHERS
    assert set() == set(re.findall(r"`fcshim (\w+)", PAGE)) - set(COMMANDS)


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma2:latest does not support tools",
        "tools param requires --jinja flag",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "This model does not support tool use",
        "function calling is not supported",
        "failed to parse grammar",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "System role not supported",
    ],
)
def test_a_refusal_of_a_server_names_the_option_that_avoids_it(message: str) -> None:
    error = read_error(400, {}, json.dumps({"error": {"message": message}}).encode())
    (option,) = set(re.findall(r"fcshim.*?(--(?:tools|constrain|profile)) ", error.message))

    assert f"`{option}" in PAGE


@pytest.mark.parametrize(
    "message",
    ["the request exceeds the available context size", "This model's maximum context length is 4096 tokens"],
)
def test_a_prompt_that_is_too_long_has_one_kind(message: str) -> None:
    assert CONTEXT_LENGTH == read_error(400, {}, json.dumps({"error": {"message": message}}).encode()).kind
