"""The command line: `fcshim serve`, `chat`, `parse`, `render`, `dialects`, `tools`, `mcp`, `demo` and others.

Rule: one module per subcommand, with `configure_parser` and `run`; nothing else reads arguments. The work is done in
the packages above.
"""

from fcshim.cli.entry import main

__all__ = ["main"]
