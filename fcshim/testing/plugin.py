"""A pytest plugin that tests another parser with the replies on which parsers fail.

`pytest -p fcshim.testing.plugin --fcshim-parser MODULE:FACTORY` runs the tests of `suite`; FACTORY is a
`reader.MakeParser`.
"""

import importlib
from pathlib import Path

import pytest

from fcshim.parse.dialects import DIALECTS
from fcshim.testing.reader import MakeParser

_SUITE = Path(__file__).with_name("suite.py")
_DEFAULT_SEEDS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("fcshim", "replies on which parsers of tool calls fail")
    group.addoption("--fcshim-parser", metavar="MODULE:FACTORY", help="the parser to test: factory(tools, dialect)")
    group.addoption(
        "--fcshim-dialect",
        action="append",
        choices=list(DIALECTS),
        metavar="NAME",
        help="a dialect in which mistakes are tried (hermes by default); may be repeated",
    )
    group.addoption(
        "--fcshim-seeds",
        type=int,
        default=_DEFAULT_SEEDS,
        metavar="N",
        help=f"random calls of each mistake and dialect ({_DEFAULT_SEEDS} by default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the suite if a parser is named: beside the files of the command line, or alone."""
    if config.getoption("--fcshim-parser"):
        load_factory(config)  # a mistake in the name is an error of the command line
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        config.args = [*(config.args if named else ()), str(_SUITE)]


def load_factory(config: pytest.Config) -> MakeParser:
    """Return the factory that the option names. Raises `pytest.UsageError`."""
    option = config.getoption("--fcshim-parser")
    module, _, name = option.partition(":")
    if not module or not name:
        raise pytest.UsageError(f"--fcshim-parser: expected MODULE:FACTORY, got {option!r:.80}")
    try:
        factory: MakeParser = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"--fcshim-parser: {error}") from error
    if not callable(factory):
        raise pytest.UsageError(f"--fcshim-parser: {option} is no function")
    return factory
