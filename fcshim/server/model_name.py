"""Reads the model that a request names, without decoding the rest.

A request names its model in its path (Google's API), in its JSON body, or in a field of
its form (files of sound).
"""

import re

import msgspec

_FORM_FIELD = re.compile(
    rb'(?i)content-disposition:[^\r\n]*;\s*name="model"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,512})\r\n--'
)
_MAX_NAME = 512
"""Characters of a name; the longest paths of model files in use have some 200."""


class _NamedModel(msgspec.Struct):
    """The only field of a request that is read."""

    model: str = ""


_decoder = msgspec.json.Decoder(_NamedModel)


def read_model_name(body: bytes, content_type: bytes = b"application/json") -> str:
    """Return the model's name; empty where the body has none."""
    if content_type.lower().startswith(b"multipart/"):
        found = _FORM_FIELD.search(body)
        return found[1].decode("utf-8", "replace") if found else ""
    try:
        return _decoder.decode(body).model[:_MAX_NAME]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""  # the decoder of the whole body reports what is wrong
