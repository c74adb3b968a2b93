"""`python -m fcshim` runs the `fcshim` command."""

import sys

_INTERRUPTED = 130


def main() -> int:
    """Run the command and return its exit code; ctrl-C ends it quietly, also while its modules are imported."""
    try:
        from fcshim.cli import main as run  # noqa: PLC0415 - see above

        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
