"""How many commands a small trained model answers with exactly the right call: without second tries, and with them.

Rule: one real llama-server, temperature 0, the same commands for each row.
Neighbours: `tests.engine.odd_values` has the commands.

Run `python -m benchmarks.second_tries --engine`; it takes some minutes.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from fcshim import demo
from tests.engine.llama_server import running
from tests.engine.odd_values import count_right
from tests.engine.program import find_llama_server

COMMANDS = range(300)
ROWS: dict[str, dict[str, Any]] = {
    "without": {"max_retries": 0},
    "second tries in words": {"constrain": "off"},
    "second tries with a grammar": {},
    "streamed, without": {"max_retries": 0, "streamed": True},
    "streamed, with a grammar": {"constrain": "llama-server", "streamed": True},
}


def main() -> None:
    if "--engine" not in sys.argv:
        print("nothing is measured without --engine")
        return
    model = Path(demo.__file__).parent / "tiny.gguf"
    with (
        tempfile.TemporaryDirectory() as folder,
        running(find_llama_server(patient=True), model, Path(folder), "--temp", "0") as server,
    ):
        for row, settings in ROWS.items():
            right = asyncio.run(count_right(server.url, COMMANDS, **settings))
            print(f"{row}: {right} of {len(COMMANDS)} exactly right, {len(COMMANDS) - right} not")


if __name__ == "__main__":
    main()
