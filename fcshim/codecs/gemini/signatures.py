"""Thought signatures: opaque to everybody but the provider that made them.

Rule: the API's field is base64, so a signature of another provider travels wrapped and comes back as it was.
Neighbours: the request reader, the writers of streams and replies.
"""

import base64
import binascii

SKIP_VALIDATION = "skip_thought_signature_validator"
"""What Google documents for a call that was made without a signature, by another model for instance."""

_WRAPPED_PREFIX = b"fcshim:"


def wrap(signature: str) -> str:
    """Give a signature as base64."""
    if _decode_base64(signature) is not None:
        return signature
    return base64.b64encode(_WRAPPED_PREFIX + signature.encode("utf-8", "replace")).decode("ascii")


def unwrap(text: str) -> str:
    """Give the signature that was wrapped; every other as it is."""
    data = _decode_base64(text)
    return (
        data.removeprefix(_WRAPPED_PREFIX).decode("utf-8", "replace")
        if data and data.startswith(_WRAPPED_PREFIX)
        else text
    )


def _decode_base64(text: str) -> bytes | None:
    """Read base64 of either alphabet: the SDKs write back the URL-safe one."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
