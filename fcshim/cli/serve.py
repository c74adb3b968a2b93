"""`fcshim serve`: the proxy.

Rule: no setting is known by name here.
Neighbours: `flags` makes flags of the settings, `server.run` serves.
"""

import argparse

from fcshim.cli.flags import add_settings, read_settings

_DESCRIPTION = """\
Serve the APIs of OpenAI (Chat and Responses), Anthropic, Google and Ollama in front of an
endpoint whose model knows no tools.

Requests with tools go through the shim: the tools into the prompt, the calls out of the
text. Where client and endpoint speak one API, requests without tools are relayed as they
are; so is whatever else an OpenAI endpoint has.
"""

_EPILOG = """\
examples:
  fcshim serve --upstream http://127.0.0.1:8080         llama.cpp (its address or its /v1)
  fcshim serve --upstream http://127.0.0.1:11434/v1     Ollama
  fcshim serve --upstream https://gpu.example/v1 --host 0.0.0.0 --api-key "$KEY"
  fcshim serve --upstream https://api.anthropic.com --upstream-api anthropic --tools native
  fcshim serve --upstream http://127.0.0.1:8080 --mcp servers.json --allow 'files:write_*'
  FCSHIM_UPSTREAM=http://127.0.0.1:8080 fcshim serve
  fcshim serve --config fcshim.toml

Then point OpenAI clients at http://127.0.0.1:8181/v1, others at http://127.0.0.1:8181.

settings come from defaults, a TOML file, the environment and flags; the later wins.
The TOML file has the settings' names as keys, and tables for single models:

  upstream = "http://127.0.0.1:8080"
  [models."qwen*"]
  reasoning = "recover"
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the process is told to end."""
    config = read_settings(arguments)
    from fcshim.server.run import serve  # noqa: PLC0415 - a mistake in the settings is told before this long import

    serve(config)
    return 0
