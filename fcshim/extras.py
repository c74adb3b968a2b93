"""The optional packages: which extra installs each, and the error where one is missing.

Rule: the package alone needs the three libraries of the parser and the prompts; everything else belongs to an extra.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from fcshim.errors import MissingExtraError

_CLIENT = ("aiohttp", "anyio", "docstring_parser", "httpx", "httpx_aiohttp", "yarl")
_PAGES = ("lxml", "markdownify", "readability")
"""What WebFetch reads pages with: whatever offers it has them."""
_SERVE = (*_CLIENT, *_PAGES, "httptools", "multidict", "rich", "tomlkit", "uvicorn", "uvloop")

EXTRAS = {
    "client": _CLIENT,
    "serve": _SERVE,
    "mcp": (*_CLIENT, *_PAGES, "httptools", "httpx2", "mcp", "pathspec", "pydantic", "uvicorn"),
    "chat": (*_CLIENT, *_PAGES, "markdown_it", "pathspec", "prompt_toolkit", "pygments", "rich"),
    "demo": (*_SERVE, "gguf", "numpy", "openai"),
    "langchain": (*_CLIENT, "langchain_core"),
    "llama-cpp": (*_CLIENT, "llama_cpp"),
    "llm": (*_CLIENT, "llm"),
    "metrics": ("prometheus_client",),
    "otel": ("opentelemetry",),
    "pydantic-ai": (*_CLIENT, "pydantic_ai"),
    "ray": (*_SERVE, "ray"),
    "redis": ("redis",),
    "testing": ("pytest",),
    "transformers": (*_CLIENT, "llguidance", "tokenizers", "torch", "transformers"),
}
"""The packages of each extra that code imports without asking whether they exist, as they are imported."""


@contextmanager
def naming_extra(preferred: str = "") -> Iterator[None]:
    """Raise `MissingExtraError` where the block lacks an optional package: the preferred extra, if it has the package.

    Other import errors pass unchanged: they are faults of an installation or of this program.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extras = [extra for extra, packages in EXTRAS.items() if package in packages]
        if not extras:
            raise
        extra = preferred if preferred in extras else extras[0]
        message = f"the package {package!r} is missing: pip install 'fcshim[{extra}]'"
        raise MissingExtraError(message) from error
