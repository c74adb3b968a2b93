"""Thought signatures, which only the provider that made them can interpret.

Rule: the API's field is base64, so another provider's signature is wrapped on the way to the client and unwrapped on
the way back.
"""

import base64
import binascii

SKIP_VALIDATION = "skip_thought_signature_validator"
"""The value that Google documents for calls without a signature, such as those of another model."""

_WRAPPED_PREFIX = b"fcshim:"


def wrap(signature: str) -> str:
    """Return a signature as base64."""
    if _decode_base64(signature) is not None:
        return signature
    return base64.b64encode(_WRAPPED_PREFIX + signature.encode("utf-8", "replace")).decode("ascii")


def unwrap(text: str) -> str:
    """Return a wrapped signature as it was; every other unchanged."""
    data = _decode_base64(text)
    return (
        data.removeprefix(_WRAPPED_PREFIX).decode("utf-8", "replace")
        if data and data.startswith(_WRAPPED_PREFIX)
        else text
    )


def _decode_base64(text: str) -> bytes | None:
    """Decode base64 of either alphabet: the SDKs return signatures in the URL-safe one."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
