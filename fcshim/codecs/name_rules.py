"""Which tool names an API accepts, and how other names are sanitized.

Rule: a valid name stays as it is; sanitizing is a pure function of the name, so that every turn sends the same name.
"""

import hashlib
import re

import msgspec

_HASH_CHARS = 8
"""Length of the hash suffix, which distinguishes names that differ only in forbidden characters."""


class NameRules(msgspec.Struct, frozen=True, kw_only=True):
    """The name syntax of one API: patterns for a forbidden and a first character, and the maximum length."""

    forbidden_chars: str = r"[^A-Za-z0-9_-]"
    first_char: str = r"[A-Za-z0-9_-]"
    max_length: int = 64

    def is_valid(self, name: str) -> bool:
        """Tell whether the API accepts `name`."""
        return (
            bool(re.match(self.first_char, name))
            and len(name) <= self.max_length
            and not re.search(self.forbidden_chars, name)
        )

    def sanitize(self, name: str) -> str:
        """Return `name` if it is valid, else a valid name with a hash of the original, so that names stay distinct."""
        if self.is_valid(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
        plain = re.sub(self.forbidden_chars, "_", name)
        prefix = "" if re.match(self.first_char, plain) else "f_"
        return f"{prefix}{plain}"[: self.max_length - _HASH_CHARS - 1] + "_" + digest
