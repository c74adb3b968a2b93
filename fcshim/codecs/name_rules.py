"""Which names of tools an API admits.

Rule: a name that is admitted stays; another becomes one that is, by a function, so that it is the same on every turn.
Neighbours: `upstreams` has the alphabets, `native` maps names there and back.
"""

import hashlib
import re

import msgspec

_HASH_CHARS = 8
"""Characters of a hash that tell names apart which differ only in what an API does not admit."""


class NameRules(msgspec.Struct, frozen=True, kw_only=True):
    """The characters that a name may not have, what it may begin with, how long it may be."""

    forbidden_chars: str = r"[^A-Za-z0-9_-]"
    first_char: str = r"[A-Za-z0-9_-]"
    max_length: int = 64

    def is_valid(self, name: str) -> bool:
        """Tell whether `name` can be used as it is."""
        return (
            bool(re.match(self.first_char, name))
            and len(name) <= self.max_length
            and not re.search(self.forbidden_chars, name)
        )

    def sanitize(self, name: str) -> str:
        """Give `name` where it is admitted, else one that is and that no other name becomes."""
        if self.is_valid(name):
            return name
        told = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
        plain = re.sub(self.forbidden_chars, "_", name)
        lead = "" if re.match(self.first_char, plain) else "f_"
        return f"{lead}{plain}"[: self.max_length - _HASH_CHARS - 1] + "_" + told
