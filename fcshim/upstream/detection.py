"""Detects an endpoint's backend: by the owner in its list of models, else by pages that only one backend serves.

Rule: `backends` holds the owners and fingerprints; a page that hangs, is missing or is not JSON matches nothing.
"""

import asyncio
import re
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
    paths = {fingerprint.path for _, fingerprint in candidates} - {upstream.kind.codec.models_path}
    pages = await asyncio.gather(*(_try_fetch_page(upstream, path) for path in paths))
    documents = {upstream.kind.codec.models_path: model_list, **dict(zip(paths, pages, strict=True))}
    for row, fingerprint in candidates:
        if matches(documents[fingerprint.path], fingerprint):
            return Detection(row, f"{fingerprint.path.lstrip('/')} has {fingerprint.member!r}", model_list)
    return Detection(GENERIC, "no page identifies the kind of server", model_list)


def matches(document: JSON, fingerprint: Fingerprint) -> bool:
    """Return whether a page has the fingerprint's member, with its value, and not the absent one."""
    found = lookup(document, fingerprint.member)
    if found is None or (fingerprint.absent and lookup(document, fingerprint.absent) is not None):
        return False
    return not fingerprint.value or (isinstance(found, str) and bool(re.search(fingerprint.value, found)))


def loads_on_demand(listed: bytes) -> bool:
    """Return whether the server loads a model when a page about it is asked for, by its list of models.

    llama-swap does, and so does llama-server with several models, which lists the status of each.
    """
    try:
        document = msgspec.json.decode(listed)
    except (ValueError, RecursionError):
        return False
    owner = backend_of_owner(str(lookup(document, "data.0.owned_by")))
    return lookup(document, "data.0.status.value") is not None or (owner is not None and owner.starts_servers)


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
