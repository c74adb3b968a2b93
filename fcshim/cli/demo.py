"""`fcshim demo`: a tiny model calls a tool through fcshim, on this machine alone.

Rule: arguments only; the show is `demo.run`'s.
Neighbours: `demo`.
"""

import argparse
from importlib.util import find_spec

from fcshim.errors import ConfigError

_DESCRIPTION = """\
Watch a real language model call a real tool through fcshim: no server, no download.

The model that comes with fcshim is tiny and can only copy; what it shows is the way of
a call: the prompt, the raw text of the model, the events, the tool's result, the answer.
"""

_EPILOG = """\
examples:
  fcshim demo
  fcshim demo --serve --port 8000     then point any OpenAI client at http://127.0.0.1:8000/v1

needs: pip install 'fcshim[demo]'
"""

_NEEDED = ("gguf", "numpy", "openai")


def fill(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--serve", action="store_true", help="keep the proxy running afterwards")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address of the proxy (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, metavar="P", help="port of the proxy (default: a free one)")


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the demo needs {', '.join(missing)}: pip install 'fcshim[demo]'")
    from fcshim.demo.run import run_demo  # noqa: PLC0415 - only once it is known that it can be imported

    return run_demo(serve=arguments.serve, host=arguments.host, port=arguments.port)
