"""Detects an endpoint's backend: by the owner in its list of models, else by pages that only one backend serves.

Rule: `backends` holds the owners and fingerprints; a page that hangs, is missing or is not JSON matches nothing.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.pipeline.backends import BACKENDS, GENERIC, Backend, Fingerprint, backend_of_owner
from fcshim.upstream import Upstream

PAGE_TIMEOUT = 3.0
"""Seconds for one page. A live server answers each of these pages from memory."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The detected backend, the evidence as a phrase for the user, and the list of models as parsed JSON."""

    backend: Backend
    evidence: str
    model_list: JSON = None


async def detect(upstream: Upstream) -> Detection:
    """Detect the backend of `upstream`: with one request if the list of models names a known owner, else one per page.

    Raises `UpstreamError` if the upstream cannot be reached.
    """
    model_list = await _fetch_page(upstream, upstream.kind.codec.models_path)
    owner = lookup(model_list, "data.0.owned_by")
    backend = backend_of_owner(owner) if isinstance(owner, str) else None
    if backend is not None:
        return Detection(backend, f"its models are owned by {owner!r:.60}", model_list)
    candidates = [(row, fingerprint) for row in BACKENDS.values() for fingerprint in row.fingerprints]
    documents = await asyncio.gather(*(_try_fetch_page(upstream, fingerprint.path) for _, fingerprint in candidates))
    for (row, fingerprint), document in zip(candidates, documents, strict=True):
        if matches(document, fingerprint):
            return Detection(row, f"{fingerprint.path.lstrip('/')} has {fingerprint.member!r}", model_list)
    return Detection(GENERIC, "nothing tells what kind of server it is", model_list)


def matches(document: JSON, fingerprint: Fingerprint) -> bool:
    """Return whether a page has the fingerprint's member."""
    return lookup(document, fingerprint.member) is not None


def lookup(document: JSON, path: str) -> JSON:
    """Return the value at a dotted path (`data.0.id`; lists by index) in a JSON document; None if there is none."""
    for step in path.split("."):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


async def _fetch_page(upstream: Upstream, path: str) -> JSON:
    """Fetch a page as JSON; None if it is missing, is not JSON, or does not come in time. Raises `UpstreamError`."""
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
