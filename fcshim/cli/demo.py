"""`fcshim demo`: a model calls a tool through fcshim; by default the tiny embedded one, without a server or a download.

It only reads arguments; `demo.run` does the work.
"""

import argparse
from pathlib import Path

from fcshim.errors import ConfigError

_DESCRIPTION = """\
Watch a real language model call a real tool through fcshim: no server, no download.

The model that comes with fcshim is tiny and can only copy. The demo shows each step of a
call: the prompt, the raw text of the model, the events, the tool's result, the answer.

With --model it shows the same with a model of your own, which llama-server serves.
"""

_EPILOG = """\
examples:
  fcshim demo
  fcshim demo --serve --port 8000     then point any OpenAI client at http://127.0.0.1:8000/v1
  fcshim demo --model qwen2.5-coder-0.5b-instruct-q4_k_m.gguf

needs: pip install 'fcshim[demo]'
"""
_ENGINES = ("auto", "numpy", "llama-server")


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument(
        "--engine",
        choices=_ENGINES,
        default="auto",
        help="runtime of the model: a llama-server on PATH, the embedded one, or the first of them that exists",
    )
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help="a GGUF file, which llama-server serves (default: the tiny model)"
    )
    parser.add_argument(
        "--llama-server", default="llama-server", metavar="PATH", help="the llama-server (default: the one on PATH)"
    )
    parser.add_argument("--serve", action="store_true", help="keep the proxy running afterwards")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address of the proxy (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, metavar="P", help="port of the proxy (default: a free one)")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and give its exit code. Raises `ConfigError`."""
    if arguments.model and arguments.engine == "numpy":
        raise ConfigError("--engine numpy runs the tiny model only: expected llama-server with --model")
    from fcshim.demo.run import run_demo  # noqa: PLC0415 - of an extra

    return run_demo(
        serve=arguments.serve,
        host=arguments.host,
        port=arguments.port,
        engine=arguments.engine,
        model=arguments.model,
        program=arguments.llama_server,
    )
