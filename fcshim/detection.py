"""Which kind of server an endpoint is: asked of its list of models, then of the pages that only one kind has.

Rule: the table in `servers` says what to look for; a page that hangs, is missing or is no JSON says nothing.
Neighbours: `enforcement` and the doctor ask here and remember the answer.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from fcshim.backends import BACKENDS, GENERIC, Backend, Fingerprint, backend_of_owner
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.upstream import Upstream

PAGE_TIMEOUT = 3.0
"""Seconds for one page; a server that is alive answers each of them from memory."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The kind of server that was found, and in words by what; `document` is what its list of models says."""

    backend: Backend
    evidence: str
    model_list: JSON = None


async def detect(upstream: Upstream) -> Detection:
    """Find out what kind of server `upstream` is: one request where its list tells, else one for each page.

    Raises `UpstreamError` where it is away.
    """
    listed = await _fetch_page(upstream, upstream.kind.codec.models_path)
    owner = lookup(listed, "data.0.owned_by")
    said = backend_of_owner(owner) if isinstance(owner, str) else None
    if said is not None:
        return Detection(said, f"its models are owned by {owner!r:.60}", listed)
    signs = [(row, sign) for row in BACKENDS.values() for sign in row.fingerprints]
    documents = await asyncio.gather(*(_try_fetch_page(upstream, sign.path) for _, sign in signs))
    for (row, sign), document in zip(signs, documents, strict=True):
        if matches(document, sign):
            return Detection(row, f"{sign.path.lstrip('/')} has {sign.member!r}", listed)
    return Detection(GENERIC, "nothing tells what kind of server it is", listed)


def matches(document: JSON, fingerprint: Fingerprint) -> bool:
    """Tell whether a page has what the sign is about."""
    return lookup(document, fingerprint.member) is not None


def lookup(document: JSON, path: str) -> JSON:
    """Follow `way` (`data.0.id`) down a JSON document; None where it does not lead anywhere."""
    for step in path.split("."):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


async def _fetch_page(upstream: Upstream, path: str) -> JSON:
    """Ask for JSON; None where there is none, or nothing comes in time. Raises `UpstreamError`."""
    try:
        async with asyncio.timeout(PAGE_TIMEOUT):
            status, body = await upstream.fetch("GET", path)
    except TimeoutError:
        return None
    try:
        return msgspec.json.decode(body) if status == 200 else None
    except (ValueError, RecursionError):
        return None


async def _try_fetch_page(upstream: Upstream, path: str) -> JSON:
    try:
        return await _fetch_page(upstream, path)
    except UpstreamError:
        return None
