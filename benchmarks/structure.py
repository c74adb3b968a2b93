"""How large the house is: what one request passes through, and what the source consists of.

Rule: a figure is counted, never timed. The request is streamed, has one tool and gets one call; it is traced in process
after others have filled the caches. Only code of fcshim counts.
"""

import ast
import asyncio
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import fcshim
from benchmarks.report import Cell, Report, arguments
from benchmarks.request_trace import BODY, RequestTrace
from fcshim.config import Config
from fcshim.server.app import create_app
from tests.scripted import scripted_upstream, text_reply

PACKAGE = Path(fcshim.__file__).parent
ARCHITECTURE = PACKAGE.parent / "ARCHITECTURE.md"
_WARMING = 3
_REPLY = (
    "I look it up.\n<function_call>\n",
    '{"name": "get_weather", ',
    '"arguments": {"city": "Rome"}}\n</function_call>',
)
_SHORT_FUNCTION = 4
_SHORT_MODULE = 120
_MOST_ATTRIBUTES = 15
_PATH_ROWS = (("files", 50), ("functions", 450), ("changes between packages", 120), ("deepest stack", 20))


async def trace_request() -> RequestTrace:
    """Send the request to the application, and return the trace of the last one. Raises `ValueError` without a call."""
    async with scripted_upstream(respond=lambda _: text_reply(*_REPLY), pages={}) as upstream:
        app = create_app(Config(upstream=upstream.url, tools="prompt"))
        try:
            for _ in range(_WARMING):
                await _post(app)
            with RequestTrace(PACKAGE) as trace:
                reply = await _post(app)
        finally:
            await app.aclose()
    if b'"get_weather"' not in reply:
        raise ValueError(f"expected a call of get_weather, got {reply!r}")
    return trace


async def _post(app: Callable[..., object]) -> bytes:
    """Send the request over ASGI; return the body of the reply."""
    body = json.dumps(BODY).encode()
    pieces: list[bytes] = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, object]:
        if requests:
            return requests.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, object]) -> None:
        pieces.append(message.get("body", b""))  # type: ignore[arg-type]

    await app(scope, receive, send)  # type: ignore[misc]
    return b"".join(pieces)


@dataclass(frozen=True, slots=True)
class ClassSize:
    """The numbers of a class: its methods, its attributes, and those that are booleans."""

    name: str
    methods: int
    attributes: int
    booleans: int


@dataclass(frozen=True, slots=True)
class Source:
    """The modules of a package, parsed; `folder` is the package's."""

    folder: Path
    modules: dict[Path, ast.Module]

    def count_lines(self) -> int:
        """Return the lines that are neither blank nor a comment."""
        lines = (line.strip() for path in self.modules for line in path.read_text(encoding="utf-8").splitlines())
        return sum(bool(line) and line[0] != "#" for line in lines)

    def classes(self) -> Iterator[ClassSize]:
        """Yield the sizes of all classes."""
        for module in self.modules.values():
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef):
                    yield _class_size(node)

    def short_helpers(self) -> list[str]:
        """Return the private functions of at most four lines that one place uses."""
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for module in self.modules.values()
            for node in ast.walk(module)
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        )
        functions = [
            node
            for module in self.modules.values()
            for node in ast.walk(module)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:1] == "_" != node.name[1:2]
        ]
        return [node.name for node in functions if uses[node.name] == 1 and _lines(node) <= _SHORT_FUNCTION]

    def small_satellites(self) -> list[Path]:
        """Return the modules under 120 lines that exactly one other module imports, which is in the same folder."""
        importers: dict[str, set[Path]] = {}
        for path, module in self.modules.items():
            for name in _imported(module):
                importers.setdefault(name, set()).add(path)
        return [
            path
            for path in self.modules
            if path.name != "__init__.py"
            and len(path.read_text(encoding="utf-8").splitlines()) < _SHORT_MODULE
            and [each.parent for each in importers.get(self._dotted(path), ())] == [path.parent]
        ]

    def _dotted(self, path: Path) -> str:
        return ".".join(path.relative_to(self.folder.parent).with_suffix("").parts)


def load_source(folder: Path = PACKAGE) -> Source:
    """Parse every module of a package."""
    return Source(folder, {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))})


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function's body, without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def _class_size(node: ast.ClassDef) -> ClassSize:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    attributes, booleans = set[str](), set[str]()
    for name, annotation, value in _assigned(node, methods):
        attributes.add(name)
        is_bool = isinstance(annotation, ast.Name) and annotation.id == "bool"
        if is_bool or (isinstance(value, ast.Constant) and isinstance(value.value, bool)):
            booleans.add(name)
    return ClassSize(node.name, len(methods), len(attributes), len(booleans))


def _assigned(
    node: ast.ClassDef, methods: list[ast.FunctionDef | ast.AsyncFunctionDef]
) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """Yield the name, annotation and value of each field of the class and each attribute of `self`."""
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id, each.annotation, each.value
    for method in methods:
        for each in ast.walk(method):
            if isinstance(each, ast.AnnAssign):
                pairs = [(each.target, each.value)]
            elif isinstance(each, ast.Assign):
                pairs = [pair for target in each.targets for pair in _pairs(target, each.value)]
            else:
                continue
            for target, value in pairs:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == "self"
                ):
                    yield target.attr, each.annotation if isinstance(each, ast.AnnAssign) else None, value


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(each, value) for each in target.elts] if isinstance(target, ast.Tuple) else [(target, value)]


def unnamed_files(files: set[str]) -> list[str]:
    """Return those of the files that ARCHITECTURE.md does not name."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    names = sorted(Path(file).relative_to(PACKAGE).as_posix() for file in files)
    return [name for name in names if name not in text]


def _compare(report: Report, source: Source, peers: Sequence[str]) -> None:
    """Print what each installed package has per 1,000 lines of source: how far other projects go."""
    columns = (
        "package",
        "lines",
        "short functions called once",
        "small modules of one importer",
        "classes above 15 attributes",
    )
    rows: list[Sequence[Cell]] = []
    for each in (source, *(load_source(_installed_folder(name)) for name in peers)):
        lines = each.count_lines()
        large = sum(size.attributes > _MOST_ATTRIBUTES for size in each.classes())
        counts = (len(each.short_helpers()), len(each.small_satellites()), large)
        rows.append((each.folder.name, lines, *(round(1000 * count / lines, 2) for count in counts)))
    report.table("Per 1,000 lines", columns, rows)


def _installed_folder(name: str) -> Path:
    """Return the folder of an installed package. Raises `ValueError` if there is none."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"expected an installed package, got {name!r}")
    return Path(spec.submodule_search_locations[0])


def main() -> int:
    """Count, report and return the exit status: 1 if a bar is missed."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--peers", nargs="+", default=(), metavar="PACKAGE", help="installed packages to compare with")
    options = parser.parse_args()
    report, source = Report("structure"), load_source()
    trace = asyncio.run(trace_request())
    values = (len(trace.files), len(trace.functions), trace.package_changes, trace.deepest)
    for (name, limit), value in zip(_PATH_ROWS, values, strict=True):
        report.bar(f"a streamed request with one call: {name}", value, limit)
    report.bar("its files that ARCHITECTURE.md does not name", len(unnamed_files(trace.files)), 0)
    pipeline = [each for path, each in source.modules.items() if (PACKAGE / "pipeline") in path.parents]
    classes = [node for module in pipeline for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    report.bar("classes of pipeline", len(classes), 20)
    report.bar("private functions called once, of at most 4 lines", len(source.short_helpers()), 150)
    report.bar("modules under 120 lines for one module of the same folder", len(source.small_satellites()), 20)
    for kind, limit in (("methods", 25), ("attributes", _MOST_ATTRIBUTES), ("booleans", 4)):
        sizes = sorted(((getattr(each, kind), each.name) for each in source.classes()), reverse=True)
        report.bar(f"most {kind} of a class ({sizes[0][1]})", sizes[0][0], limit)
        above = ", ".join(f"{name} {size}" for size, name in sizes if size > limit)
        print(f"        above {limit}: {above or 'none'}")
    if options.peers:
        _compare(report, source, options.peers)
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
