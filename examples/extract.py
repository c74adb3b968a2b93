"""Extraction: a record from each line of a file, as a pydantic model that a demanded call fills in.

    python examples/extract.py [--url http://127.0.0.1:8080] [FILE]

Writes one JSON object a line, in the order of the texts. A text without a valid record is reported on stderr, with what
the model wrote, and makes the exit code 1.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from fcshim import Client
from fcshim.errors import ModelOutputError

TEXTS = Path(__file__).with_name("invoices.txt")
AT_ONCE = 4
"""Requests at a time; a server with more slots takes more."""
TASK = {"role": "system", "content": "Extract what the invoice in the message says."}


class Invoice(BaseModel):
    """What an invoice says."""

    number: int = Field(description="the number of the invoice", ge=1)
    vendor: str = Field(description="who sends it", min_length=1, max_length=80)
    amount: float = Field(description="the sum to pay", gt=0)
    currency: Literal["EUR", "GBP", "NOK", "USD"]


async def extract(client: Client, text: str, slots: asyncio.Semaphore) -> Invoice | None:
    """Return the record of one text; None, and a report, if the model wrote none."""
    async with slots:
        try:
            result = await client.run([TASK, {"role": "user", "content": text}], output_type=Invoice, temperature=0)
        except ModelOutputError as error:
            print(f"{text}\n  {error.message}\n  {error.raw}", file=sys.stderr)
            return None
    return result.output


async def main() -> int:
    """Extract all records; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("file", nargs="?", type=Path, default=TEXTS)
    options.add_argument("--url", default="http://127.0.0.1:8080")
    given = options.parse_args()
    texts = given.file.read_text(encoding="utf-8").splitlines()
    slots = asyncio.Semaphore(AT_ONCE)
    async with Client(given.url) as client:
        records = await asyncio.gather(*(extract(client, text, slots) for text in texts))
    for record in records:
        print("null" if record is None else record.model_dump_json())
    return 1 if None in records else 0


sys.exit(asyncio.run(main()))
