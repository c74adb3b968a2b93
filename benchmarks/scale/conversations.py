"""Conversations of the Responses API by `previous_response_id`, whose every turn is checked.

Rule: a turn that broke off is asked again, as a client does; a turn that was completed must be known to every replica
from then on. The endpoint tells the marks of all turns that it was shown, so that a lost or a foreign one is seen.
"""

import asyncio
import json
from dataclasses import dataclass

from benchmarks.proxy.upstream import TURNS

_ATTEMPTS = 100
_PAUSE = 0.1


@dataclass
class Tally:
    """The outcomes of the turns."""

    completed: int = 0
    repeated: int = 0
    """Attempts that broke off and were made again."""
    lost: int = 0
    problem: str = ""
    """The first reason for which a turn was lost."""

    def lose(self, problem: str) -> None:
        """Count a turn that was lost."""
        self.lost += 1
        self.problem = self.problem or problem


class BrokenTurnError(Exception):
    """The reply to a turn did not come to its end."""


async def converse(port: int, name: str, turns: int, tally: Tally, *, chunks: int = 10, pause: float = 0.02) -> None:
    """Have one conversation; it ends with the first lost turn."""
    previous = None
    for number in range(turns):
        script = f"{TURNS}:{chunks}:{pause}:{name}-{number}"
        try:
            response = await _ask_until_answered(port, script, previous, tally)
        except (ValueError, BrokenTurnError) as error:
            tally.lose(f"turn {number} of {name}: {error}")
            return
        expected = " ".join(f"{name}-{each}" for each in range(number + 1))
        told = response["output"][0]["content"][0]["text"].partition("\n")[0]
        if told != expected:
            tally.lose(f"turn {number} of {name}: expected the marks {expected!r}, got {told!r}")
            return
        tally.completed += 1
        previous = response["id"]


async def _ask_until_answered(port: int, script: str, previous: str | None, tally: Tally) -> dict:
    """Ask until a reply is complete. Raises `ValueError` if the proxy refuses the turn."""
    for _ in range(_ATTEMPTS):
        try:
            return await _ask(port, script, previous)
        except (OSError, BrokenTurnError):
            tally.repeated += 1
            await asyncio.sleep(_PAUSE)
    raise BrokenTurnError(f"no complete reply to {_ATTEMPTS} attempts")


async def _ask(port: int, script: str, previous: str | None) -> dict:
    """Return a completed response. Raises `BrokenTurnError`, and `ValueError` if the request was refused."""
    body = json.dumps({"model": "m", "input": script, "previous_response_id": previous, "stream": True}).encode()
    head = (
        f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"authorization: Bearer k\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + body)
        reply = await reader.read(-1)
    finally:
        writer.close()
    if reply.startswith(b"HTTP/1.1 4"):
        raise ValueError(reply.rpartition(b"\r\n\r\n")[2].decode(errors="replace"))
    _, _, last = reply.partition(b"event: response.completed\n")
    if not last.endswith(b"0\r\n\r\n"):
        raise BrokenTurnError
    return dict(json.loads(last.partition(b"data: ")[2].partition(b"\n")[0])["response"])
