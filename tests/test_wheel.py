"""The wheel as a user gets it: built from the source distribution, installed outside the checkout, and used."""

import ast
import json
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections import Counter
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path

import msgspec
import pytest

from fcshim.cli.entry import COMMANDS
from tests.demo.served import served_demo
from tests.engine.process import free_port, serving

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "fcshim" / "evaluate"
NOT_INSTALLED = {"llama_cpp": "llama-cpp-python", "pydantic_ai": "pydantic-ai-slim"}
"""The distribution of a package that the tests do without, where it has another name; Ray's is its own."""
SERVERS = {"sglang", "vllm", "xgrammar"}
"""What only plugins import that these servers load themselves."""

USE = r"""
import json, sys
import fcshim
from fcshim.messages import Tool
from fcshim.parse.dialects import get_dialect
from fcshim.prompt.render import render_system

strict = '<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>'
tolerated = "<function_call>\n{'name': 'add', 'arguments': {'a': 1,}}\n</function_call>"
tool = Tool(name="add", parameters={"type": "object"})
print(json.dumps({
    "file": fcshim.__file__,
    "strict": [fcshim.event_to_dict(event) for event in fcshim.parse(strict)],
    "tolerated": [fcshim.event_to_dict(event) for event in fcshim.parse(tolerated)],
    "prompt": render_system(get_dialect("function_call"), [tool]),
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT)
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(wheel) as archive:
        yield archive


@pytest.fixture(scope="module")
def installed_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; it shares the dependencies of the tests' environment.

    A path that a .pth file adds is searched last, and .pth files in it are not read, so the editable install is hidden.
    """
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (site_packages,) = home.glob("lib/python*/site-packages")
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_data_file_is_in_the_wheel_once(contents: zipfile.ZipFile) -> None:
    expected = [
        *(path.relative_to(ROOT).as_posix() for kind in ("grammars", "templates") for path in files(ROOT / kind)),
        *(
            f"evaluate/{path.relative_to(SUITE).as_posix()}"
            for path in files(SUITE)
            if path.suffix not in {".py", ".pyc"}
        ),
        "demo/tiny.gguf",
    ]
    packed = Counter(name.removeprefix("fcshim/") for name in contents.namelist() if not name.endswith(".py"))

    assert dict.fromkeys(expected, 1) == {name: packed[name] for name in expected}


def test_nothing_is_in_the_wheel_but_the_package(contents: zipfile.ZipFile) -> None:
    tops = {Path(name).parts[0] for name in contents.namelist()}

    assert {"fcshim"} == {top for top in tops if not top.endswith(".dist-info")}
    assert [] == [name for name in contents.namelist() if re.search(r"tests|recipe|__pycache__|benchmarks", name)]
    assert len(contents.namelist()) == len(set(contents.namelist()))


def test_the_model_is_packed_whole_and_only_once(contents: zipfile.ZipFile) -> None:
    """Under any name: two files of its size would be two copies."""
    size = (ROOT / "fcshim" / "demo" / "tiny.gguf").stat().st_size

    assert ["fcshim/demo/tiny.gguf"] == [info.filename for info in contents.infolist() if info.file_size == size]


def test_the_installed_wheel_parses_and_renders(installed_python: Path, tmp_path: Path) -> None:
    output = msgspec.json.decode(run(installed_python, "-I", "-c", USE, cwd=tmp_path))

    assert Path(output["file"]).is_relative_to(installed_python.parent.parent)
    for events in (output["strict"], output["tolerated"]):
        (end,) = (event for event in events if event["type"] == "tool_call_end")
        assert ("add", {"a": 1}, None) == (
            end["tool_call_name"],
            msgspec.json.decode(end["tool_call_arguments_complete"]),
            end["error"],
        )
    assert '"name": "add"' in output["prompt"]


def test_the_installed_command_answers(installed_python: Path, tmp_path: Path) -> None:
    help_text = run(installed_python.parent / "fcshim", "--help", cwd=tmp_path)

    assert "serve" in help_text


def test_every_package_that_is_imported_is_declared(contents: zipfile.ZipFile) -> None:
    """A package that only a dependency requires may disappear with that dependency."""
    (metadata,) = (name for name in contents.namelist() if name.endswith(".dist-info/METADATA"))
    requirements = Parser().parsestr(contents.read(metadata).decode()).get_all("Requires-Dist", [])
    declared = {normalise(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}
    distributions = packages_distributions()
    imported = {
        normalise(distributions.get(top, [NOT_INSTALLED.get(top, top)])[0])
        for name in contents.namelist()
        if name.endswith(".py")
        for top in top_level_imports(contents.read(name))
        if top not in sys.stdlib_module_names | SERVERS and top != "fcshim"
    }

    assert set() == imported - declared


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def normalise(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def top_level_imports(source: bytes) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


class FreshEnvironment:
    """A new environment with the wheel and an extra, as pip installs them; nothing else is visible in it."""

    def __init__(self, home: Path) -> None:
        self.bin = home / "bin"

    def fcshim(self, *arguments: str | Path) -> str:
        """Run the command outside the checkout; return what it writes."""
        return run(self.bin / "fcshim", *arguments, cwd=self.bin.parent)

    def python(self, program: str, *arguments: str) -> str:
        """Run a program outside the checkout; return what it writes."""
        return run(self.bin / "python", "-I", "-c", program, *arguments, cwd=self.bin.parent)

    def distributions(self) -> set[str]:
        """Return the names of what is installed."""
        listed = self.python("from importlib.metadata import distributions\nfor d in distributions(): print(d.name)")
        return {normalise(name) for name in listed.split()} - {"pip", "setuptools"}


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with served_demo() as served:
        yield served.upstream


@pytest.fixture
def fresh(request: pytest.FixtureRequest, wheel: Path, tmp_path: Path) -> FreshEnvironment:
    venv.create(tmp_path / "fresh", with_pip=False)
    environment = FreshEnvironment(tmp_path / "fresh")
    extra = f"[{request.param}]" if request.param else ""
    pip = (sys.executable, "-m", "pip", "--python", environment.bin / "python", "install", "--quiet")
    run(*pip, f"{wheel}{extra}")
    for command in COMMANDS:
        assert f"usage: fcshim {command}" in environment.fcshim(command, "--help")
    return environment


@pytest.mark.parametrize("fresh", [""], indirect=True)
def test_the_library_alone_is_six_distributions_at_most(fresh: FreshEnvironment, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "add", "parameters": {"type": "object"}}]')
    (tmp_path / "reply.txt").write_text('<function_call>{"name": "add", "arguments": {"a": 1,}}</function_call>')
    events = fresh.fcshim("parse", "--tools", tmp_path / "tools.json", tmp_path / "reply.txt")

    assert {"fcshim", "jinja2", "lark", "markupsafe", "msgspec"} == fresh.distributions()
    assert '"tool_call_name":"add"' in events
    assert '"name": "add"' in fresh.fcshim("render", "--tools", tmp_path / "tools.json")
    assert "hermes" in fresh.fcshim("dialects")
    assert "strict" in json.loads(fresh.python(USE))


RUN = """
import sys
from fcshim import SyncClient

def add_numbers(first: int, second: int) -> int:
    '''Add two numbers.'''
    return first + second

with SyncClient(sys.argv[1]) as client:
    print(client.run("call add_numbers with first=19, second=23", [add_numbers]).text)
"""


@pytest.mark.parametrize("fresh", ["client"], indirect=True)
def test_the_extra_client_runs_functions(fresh: FreshEnvironment, model_url: str) -> None:
    assert "add_numbers returned 42\n" == fresh.python(RUN, model_url)


@pytest.mark.parametrize("fresh", ["serve"], indirect=True)
def test_the_extra_serve_serves(fresh: FreshEnvironment, model_url: str) -> None:
    port = free_port()
    command = [fresh.bin / "fcshim", "serve", "--upstream", model_url, "--port", str(port)]
    with serving(command, f"http://127.0.0.1:{port}", fresh.bin.parent / "serve.log"):
        assert "add_numbers returned 42\n" == fresh.python(RUN, f"http://127.0.0.1:{port}")
    assert "fcshim-tiny" in fresh.fcshim("models", "--upstream", model_url)
    assert "commands" in fresh.fcshim("eval", model_url, "--category", "commands", "--limit", "1")


@pytest.mark.parametrize("fresh", ["mcp"], indirect=True)
def test_the_extra_mcp_uses_and_serves_tools(fresh: FreshEnvironment, tmp_path: Path) -> None:
    options = ["mcp", "--root", str(tmp_path)]
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"own": {"command": str(fresh.bin / "fcshim"), "args": options}}}))
    (tmp_path / "a.txt").write_text("found it")
    given = ("--mcp", file, "--pins", tmp_path / "pins.json")

    assert "own\tRead\n" in fresh.fcshim("tools", "list", *given)
    assert "found it" in fresh.fcshim("tools", "call", *given, "own:Read", '{"path": "a.txt"}')


@pytest.mark.parametrize("fresh", ["chat"], indirect=True)
def test_the_extra_chat_talks(fresh: FreshEnvironment, model_url: str) -> None:
    assert "hello world\n" == fresh.fcshim("chat", model_url, "-p", "say hello world", "--no-save")


@pytest.mark.parametrize("fresh", ["demo"], indirect=True)
def test_the_extra_demo_runs_the_demo(fresh: FreshEnvironment) -> None:
    assert "add_numbers(first=19, second=23) returned 42" in fresh.fcshim("demo", "--engine", "numpy")


@pytest.mark.parametrize("fresh", ["all"], indirect=True)
def test_all_has_every_part(fresh: FreshEnvironment, tmp_path: Path) -> None:
    """The tools and metrics have no command of their own; the chat uses the embedded model and a server's tools."""
    server = ROOT / "tests" / "mcp" / "servers" / "calc.py"
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"calc": {"command": str(fresh.bin / "python"), "args": [str(server)]}}}))
    question = "call mcp__calc__add with first=19, second=23"
    options = ("--no-save", "--mcp", file, "--pins", tmp_path / "pins.json", "--allow", "calc:*")
    answer = fresh.fcshim("chat", "--demo", "-p", question, *options)

    assert "mcp__calc__add returned 42\n" == answer
    fresh.python("import lxml, markdownify, prometheus_client, re2, readability, tree_sitter_bash")
