"""Recordings of a real server: the bytes of streamed replies as they arrived, for many seeds.

Rule: bytes are kept in the pieces that the socket delivered; `deltas` parses them without fcshim.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx

from tests.engine.grammars import GRAMMARS, OPEN
from tests.engine.llama_server import SLOTS


class Recording(NamedTuple):
    """One streamed reply; `grammar` and `seed` reproduce it."""

    grammar: str
    seed: int
    pieces: list[bytes]

    def deltas(self) -> list[str]:
        """Return the fragments of text as the server split them."""
        chunks = [json.loads(line[6:]) for line in b"".join(self.pieces).split(b"\n") if line.startswith(b"data: {")]
        texts = (choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"])
        return [text for text in texts if text]

    def tag_splits(self) -> Iterator[tuple[int, ...]]:
        """Yield, for each start marker, the positions in it where the server split the text."""
        deltas = self.deltas()
        text = "".join(deltas)
        cuts = [sum(map(len, deltas[: count + 1])) for count in range(len(deltas))]
        start = text.find(OPEN)
        while start >= 0:
            yield tuple(cut - start for cut in cuts if start < cut < start + len(OPEN))
            start = text.find(OPEN, start + 1)


def record(url: str, seeds: int) -> list[Recording]:
    """Record `seeds` replies under each grammar, one request per slot at a time."""
    wanted = [(grammar, seed) for grammar in GRAMMARS for seed in range(seeds)]
    # llama-server closes the connection after a stream although its headers say keep-alive, so none may be reused;
    # a limit of no kept connections is not enough: a thread can take one before the pool has dropped it.
    client = httpx.Client(base_url=url, timeout=60, trust_env=False, headers={"Connection": "close"})
    with client as http, ThreadPoolExecutor(SLOTS) as workers:
        return list(workers.map(lambda each: _record(http, *each), wanted))


def _record(http: httpx.Client, grammar: str, seed: int) -> Recording:
    body = {
        "messages": [{"role": "user", "content": f"Go {seed}."}],
        "grammar": GRAMMARS[grammar],
        "seed": seed,
        "temperature": 1.0,
        "max_tokens": 1000,
        "stream": True,
    }
    with http.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        return Recording(grammar, seed, list(response.iter_raw()))
