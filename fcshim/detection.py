"""Which kind of server an endpoint is: asked of its list of models, then of the pages that only one kind has.

Rule: the table in `servers` says what to look for; a page that hangs, is missing or is no JSON says nothing.
Neighbours: `enforcement` and the doctor ask here and remember the answer.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.servers import GENERIC, SERVERS, Server, Sign, server_that_says
from fcshim.upstream import Upstream

PATIENCE = 3.0
"""Seconds for one page; a server that is alive answers each of them from memory."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """The kind of server that was found, and in words by what; `document` is what its list of models says."""

    server: Server
    evidence: str
    document: JSON = None


async def detect(upstream: Upstream) -> Sighting:
    """Find out what kind of server `upstream` is: one request where its list tells, else one for each page.

    Raises `UpstreamError` where it is away.
    """
    listed = await _page(upstream, upstream.kind.codec.models_path)
    owner = found_in(listed, "data.0.owned_by")
    said = server_that_says(owner) if isinstance(owner, str) else None
    if said is not None:
        return Sighting(said, f"its models are owned by {owner!r:.60}", listed)
    signs = [(row, sign) for row in SERVERS.values() for sign in row.signs]
    documents = await asyncio.gather(*(_quiet_page(upstream, sign.path) for _, sign in signs))
    for (row, sign), document in zip(signs, documents, strict=True):
        if shows(document, sign):
            return Sighting(row, f"{sign.path.lstrip('/')} has {sign.member!r}", listed)
    return Sighting(GENERIC, "nothing tells what kind of server it is", listed)


def shows(document: JSON, sign: Sign) -> bool:
    """Tell whether a page has what the sign is about."""
    return found_in(document, sign.member) is not None


def found_in(document: JSON, way: str) -> JSON:
    """Follow `way` (`data.0.id`) down a JSON document; None where it does not lead anywhere."""
    for step in way.split("."):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


async def _page(upstream: Upstream, path: str) -> JSON:
    """Ask for JSON; None where there is none, or nothing comes in time. Raises `UpstreamError`."""
    try:
        async with asyncio.timeout(PATIENCE):
            status, body = await upstream.fetch("GET", path)
    except TimeoutError:
        return None
    try:
        return msgspec.json.decode(body) if status == 200 else None
    except (ValueError, RecursionError):
        return None


async def _quiet_page(upstream: Upstream, path: str) -> JSON:
    try:
        return await _page(upstream, path)
    except UpstreamError:
        return None
