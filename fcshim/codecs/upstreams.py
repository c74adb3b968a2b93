"""The table of upstream APIs.

Rule: an API is a row of `UPSTREAMS`; whatever differs between upstreams apart from their wire formats stands here.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

import msgspec

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.codecs.anthropic.upstream_request import VERSION
from fcshim.codecs.base import Codec
from fcshim.codecs.gemini import GEMINI
from fcshim.codecs.ollama import OLLAMA
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_responses import OPENAI_RESPONSES

UpstreamApi = Literal["openai", "responses", "anthropic", "gemini", "ollama", "llamacpp"]

_HASH_CHARS = 8
"""Length of the hash suffix, which distinguishes names that differ only in forbidden characters."""


class NameRules(msgspec.Struct, frozen=True, kw_only=True):
    """The syntax of tool names in one API: patterns for a forbidden and a first character, and the maximum length.

    Sanitizing is a pure function of the name, so that every turn sends the same name.
    """

    forbidden_chars: str = r"[^A-Za-z0-9_-]"
    first_char: str = r"[A-Za-z0-9_-]"
    max_length: int = 64

    def is_valid(self, name: str) -> bool:
        """Return whether the API accepts `name`."""
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


OPENAI_NAME_RULES = NameRules()


@dataclass(frozen=True, slots=True)
class UpstreamKind:
    """One kind of upstream.

    `version` is appended to a base URL that names none. `key_header` is the header for the key and the prefix of its
    value; `headers` are sent with every request. `name_rules` apply to tool names. `full_openai_api`: the upstream also
    serves the other endpoints of OpenAI's API. `allows_verbatim`: replies may be relayed verbatim to clients of the
    same API; imitations of an API get indexes, ids and arguments wrong, so that their replies are decoded and encoded
    again. `native_tools`: every model of this API has native tools; else each server says which models have them.
    """

    name: UpstreamApi
    codec: Codec
    version: str = "/v1"
    key_header: tuple[bytes, bytes] = (b"authorization", b"Bearer ")
    headers: tuple[tuple[bytes, bytes], ...] = ()
    name_rules: NameRules = OPENAI_NAME_RULES
    full_openai_api: bool = False
    allows_verbatim: bool = False
    native_tools: bool = True


UPSTREAMS: dict[str, UpstreamKind] = {
    row.name: row
    for row in (
        UpstreamKind("openai", OPENAI_CHAT, full_openai_api=True, native_tools=False),
        UpstreamKind("llamacpp", OPENAI_CHAT, full_openai_api=True, native_tools=False),
        UpstreamKind("responses", OPENAI_RESPONSES, full_openai_api=True, allows_verbatim=True),
        UpstreamKind(
            "anthropic",
            ANTHROPIC,
            key_header=(b"x-api-key", b""),
            headers=(VERSION,),
            name_rules=NameRules(max_length=128),
            allows_verbatim=True,
        ),
        UpstreamKind(
            "gemini",
            GEMINI,
            version="/v1beta",
            key_header=(b"x-goog-api-key", b""),
            name_rules=NameRules(forbidden_chars=r"[^A-Za-z0-9_.:-]", first_char=r"[A-Za-z_]", max_length=128),
            allows_verbatim=True,
        ),
        UpstreamKind(
            "ollama",
            OLLAMA,
            version="",
            name_rules=NameRules(forbidden_chars=r"[^\w.:/-]", first_char=r"[\w.:/-]", max_length=128),
            native_tools=False,
        ),
    )
}
"""The rows by name."""
