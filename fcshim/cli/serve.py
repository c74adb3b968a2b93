"""`fcshim serve`: run the proxy.

Rule: this module names no setting; every flag comes from the table of settings.
"""

import argparse
import functools

from fcshim.cli.endpoint import add_url, read_endpoint_settings
from fcshim.cli.flags import add_settings, read_settings, settings_file
from fcshim.config import FILE_VARIABLE
from fcshim.config.values import OWN_TOOLS
from fcshim.errors import ConfigError

_DESCRIPTION = """\
Serve the APIs of OpenAI (Chat and Responses), Anthropic, Google and Ollama in front of an
endpoint whose model has no tool calling.

Requests with tools go through the shim: it writes the tools into the prompt and parses the
calls from the text. Requests without tools are relayed unchanged if client and endpoint use
the same API, and so are all other paths of an OpenAI endpoint.
"""

_EPILOG = """\
examples:
  fcshim serve                                  the model server that runs on this machine
  fcshim serve http://127.0.0.1:11434           this one (its address or its /v1)
  fcshim serve https://gpu.example/v1 --host 0.0.0.0 --api-key "$KEY"
  fcshim serve https://api.anthropic.com --upstream-api anthropic
  fcshim serve http://127.0.0.1:8080 --mcp servers.json --allow 'files:write_*'
  FCSHIM_UPSTREAM=http://127.0.0.1:8080 fcshim serve
  fcshim serve --config fcshim.toml
  fcshim serve --inspect                        each prompt, reply and call, in a browser at /fcshim/
  fcshim serve http://127.0.0.1:8080 --tune      measure first how its model calls tools best
  fcshim serve --workers 4 --store sqlite:state.db

Then point OpenAI clients at http://127.0.0.1:8181/v1, others at http://127.0.0.1:8181.

Settings come from defaults, a TOML file, the environment and flags; later sources win.
The keys of the TOML file are the names of the settings; a table sets them for some models:

  upstream = "http://127.0.0.1:8080"
  [models."qwen*"]
  reasoning = "recover"
"""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.usage = f"{parser.prog} [options] [URL]"
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add_url(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        default=argparse.SUPPRESS,
        help="load the settings again when their file changes, as SIGHUP does",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="first find the settings that suit the upstream's model, if none are known (90 s; see doctor)",
    )
    add_settings(parser, without_group=OWN_TOOLS, short_help=True)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the process is stopped. Raises `ConfigError` and `UpstreamError`."""
    config = read_endpoint_settings(arguments)
    from fcshim.server.run import serve  # noqa: PLC0415 - a slow import, after the settings are checked

    if config.mcp is not None:
        from fcshim.mcp import Manager  # noqa: F401, PLC0415 - its extra may be missing, which the server would only log

    file = settings_file(arguments)
    watch = getattr(arguments, "watch", False)
    if watch and file is None:
        raise ConfigError(f"--watch: expected a file of settings, by --config or {FILE_VARIABLE}")
    if arguments.tune:
        from fcshim.cli.tune import tune  # noqa: PLC0415 - as above

        tune(config)
    load = None if file is None else functools.partial(read_settings, arguments)
    serve(config, load, watched=file if watch else None)
    return 0
