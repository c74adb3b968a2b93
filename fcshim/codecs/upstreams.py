"""All APIs that upstreams may speak: data.

Rule: an API is a row of `UPSTREAMS`; whatever differs between them, apart from their wire formats, stands here.
Neighbours: `upstream` sends as a row says; the configuration and the client name rows.
"""

from dataclasses import dataclass
from typing import Literal

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.codecs.anthropic.upstream_request import VERSION
from fcshim.codecs.base import Codec
from fcshim.codecs.gemini import GEMINI
from fcshim.codecs.name_rules import NameRules
from fcshim.codecs.ollama import OLLAMA
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_responses import OPENAI_RESPONSES

ToolSupportSource = Literal["always", "props", "show"]
"""`always`: every model does; `props`: llama-server's template tells, and who has no such page may be tried; `show`:
Ollama's list of capabilities."""
UpstreamApi = Literal["openai", "responses", "anthropic", "gemini", "ollama", "llamacpp"]


OPENAI_NAME_RULES = NameRules()


@dataclass(frozen=True, slots=True)
class UpstreamKind:
    """One kind of upstream.

    `version` is appended to an address that names none. `key_header` is the header of a key, and what stands before it;
    `headers` go with every question. `names` are those that a tool may have. `openai`: the rest of OpenAI's API is
    there as well. `faithful`: clients may have its replies verbatim; imitations get indexes, ids and arguments wrong,
    so theirs are read and written again. `claims`: how it says whether a model calls tools by itself.
    """

    name: UpstreamApi
    codec: Codec
    version: str = "/v1"
    key_header: tuple[bytes, bytes] = (b"authorization", b"Bearer ")
    headers: tuple[tuple[bytes, bytes], ...] = ()
    name_rules: NameRules = OPENAI_NAME_RULES
    full_openai_api: bool = False
    allows_verbatim: bool = False
    tool_support_source: ToolSupportSource = "always"


UPSTREAMS: dict[str, UpstreamKind] = {
    row.name: row
    for row in (
        UpstreamKind("openai", OPENAI_CHAT, full_openai_api=True, tool_support_source="props"),
        UpstreamKind("llamacpp", OPENAI_CHAT, full_openai_api=True, tool_support_source="props"),
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
            tool_support_source="show",
        ),
    )
}
"""The rows by name."""
