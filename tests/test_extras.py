"""The optional packages: without them every help text works, and what needs one names the extra that installs it."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from fcshim.cli.entry import COMMANDS
from fcshim.errors import ConfigError, MissingExtraError
from fcshim.extras import EXTRAS, naming_extra

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = sorted({package for packages in EXTRAS.values() for package in packages})
_IMPORTED_AS = {"markdown-it-py": "markdown_it"}
"""Distributions whose package has another name."""
WITHOUT_PACKAGES = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %r:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
"""
"""The start of a program in which packages are not installed."""
MAIN = "import sys\nfrom fcshim.cli import main\nsys.exit(main(sys.argv[1:]))"
LIBRARY = (
    *("agent", "codecs.routes", "codecs.upstreams", "config", "constrain.constraint", "messages", "parse.stream"),
    *(
        "openai",
        "pipeline.in_process",
        "pipeline.exchange",
        "pipeline.shim",
        "prompt.compose",
        "prompt.dialect_folder",
        "schema.validate",
        "tools",
    ),
)
HELP = """
from fcshim.cli import main
for name in %r:
    try:
        main([name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0
"""
MAIN_JOBS = {
    "serve": ("serve", "--upstream", "http://127.0.0.1:1"),
    "chat": ("chat", "http://127.0.0.1:1", "-p", "hello"),
    "models": ("serve", "--upstream", "http://127.0.0.1:1"),
    "doctor": ("serve", "http://127.0.0.1:1"),
    "eval": ("serve", "http://127.0.0.1:1"),
    "tools": ("mcp", "list", "--mcp"),
    "mcp": ("mcp", "--root", "."),
    "demo": ("demo",),
}
"""The extra and the arguments of each command that needs one."""


def run(program: str, *arguments: object, missing: Sequence[str] = OPTIONAL) -> subprocess.CompletedProcess[str]:
    """Run a program in which packages are missing."""
    command = [sys.executable, "-c", WITHOUT_PACKAGES % (missing,) + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_help_works_without_extras() -> None:
    done = run(HELP % (list(COMMANDS),))

    assert (0, "") == (done.returncode, done.stderr)
    for name in COMMANDS:
        assert f"usage: fcshim {name}" in done.stdout


def test_the_library_needs_no_extra() -> None:
    done = run(f"import importlib\nfor name in {LIBRARY}:\n    importlib.import_module('fcshim.' + name)")

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", MAIN_JOBS)
def test_a_command_names_its_extra_in_one_line(name: str, tmp_path: Path) -> None:
    extra, *arguments = MAIN_JOBS[name]
    if arguments[-1:] == ["--mcp"]:
        file = tmp_path / "servers.json"
        file.write_text('{"mcpServers": {}}')
        arguments.append(str(file))
    done = run(MAIN, name, *arguments)

    assert (2, "") == (done.returncode, done.stdout)
    expected = rf"fcshim: the package '\w+' is missing: pip install 'fcshim\[{extra}\]'\n"
    assert re.fullmatch(expected, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("serve", "--upstream", "http://127.0.0.1:1", "--port", "0", "--mcp"), "mcp"),
        (("serve", "--upstream", "http://127.0.0.1:1", "--port", "0", "--store", "redis://127.0.0.1:1"), "redis"),
        (("chat", "http://127.0.0.1:1", "-p", "hello", "--no-save", "--mcp"), "mcp"),
        (("chat", "--demo", "-p", "hello", "--no-save"), "demo"),
        (("eval", "--demo", "--category", "commands"), "demo"),
    ],
)
def test_a_part_of_a_command_names_an_extra_of_its_own(arguments: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"own": {"command": "nothing"}}}')
    given = (*arguments, file) if arguments[-1] == "--mcp" else arguments
    done = run(MAIN, *given, missing=["gguf", "httpx2", "mcp", "numpy", "openai", "redis"])

    assert 2 == done.returncode
    assert done.stderr.endswith(f"is missing: pip install 'fcshim[{extra}]'\n"), done.stderr


@pytest.mark.parametrize(
    ("statement", "extra"), [("from fcshim import Client", "client"), ("from fcshim.mcp import Manager", "mcp")]
)
def test_a_public_name_names_its_extra(statement: str, extra: str) -> None:
    done = run(f"try:\n    {statement}\nexcept ImportError as error:\n    print(type(error).__name__, error)")

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("MissingExtraError the package")
    assert done.stdout.endswith(f"pip install 'fcshim[{extra}]'\n")


def test_an_error_that_no_extra_mends_stays() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere") as caught, naming_extra():
        raise ModuleNotFoundError("No module named 'nowhere.at.all'", name="nowhere.at.all")

    assert not isinstance(caught.value, MissingExtraError)


def test_a_missing_extra_is_the_operators_error_and_an_import_error() -> None:
    with pytest.raises(MissingExtraError) as caught, naming_extra("chat"):
        raise ModuleNotFoundError("No module named 'yarl'", name="yarl")

    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, ImportError)
    assert "the package 'yarl' is missing: pip install 'fcshim[chat]'" == caught.value.message


PACKAGES = {
    "llama_cpp_python": "llama_cpp",
    "pydantic_ai_slim": "pydantic_ai",
    "markdown_it_py": "markdown_it",
    "readability_lxml": "readability",
    "opentelemetry_api": "opentelemetry",
    "opentelemetry_sdk": "opentelemetry",
    "opentelemetry_exporter_otlp_proto_http": "opentelemetry",
}
"""What is imported, where the distribution has another name."""


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_table_says_what_the_extra_installs(extra: str) -> None:
    names = {_IMPORTED_AS.get(name, name).replace("-", "_") for name in requirements(extra)}

    assert set(EXTRAS[extra]) == {PACKAGES.get(name, name) for name in names}


@pytest.mark.parametrize("extra", ["chat", "mcp", "serve"])
def test_an_extra_that_offers_web_pages_can_read_them(extra: str) -> None:
    """Requirement 42."""
    assert {"lxml", "markdownify", "readability"} <= set(EXTRAS[extra])


def test_all_has_every_extra_for_users() -> None:
    frameworks = {"langchain", "llama-cpp", "llm", "pydantic-ai", "ray", "transformers"}  # there already, or large
    others = {"all", "client", "plot", "testing", *frameworks}
    users = set(PROJECT["optional-dependencies"]) - others

    assert users == {"serve", "mcp", "chat", "demo", "tools", "metrics", "otel", "redis"}
    assert set().union(*map(requirements, users)) == requirements("all")


def test_the_library_alone_has_three_dependencies() -> None:
    assert ["jinja2", "lark", "msgspec"] == [re.split(r"[<>=]", each)[0] for each in PROJECT["dependencies"]]


def requirements(extra: str) -> set[str]:
    """Return the distributions of an extra, and of the extras that it includes."""
    found: set[str] = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, *included = re.split(r"[<>=;\[\],]", requirement)
        found |= set().union(*map(requirements, filter(None, included))) if name == "fcshim" else {name}
    return found
