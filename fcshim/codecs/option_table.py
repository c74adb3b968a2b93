"""The options that clients have beside the fields of `Request`, and what becomes of them in each upstream API.

Rule: an option has one row here, under its name in the Chat API. What has no field in an API is left out there, and the
log says so; a codec itself writes only the options that are converted, not copied.
"""

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from fcshim.events import JSON
from fcshim.messages import Request

OptionApi: TypeAlias = Literal["openai_responses", "anthropic", "gemini", "ollama"]
"""An API whose options have other names than those of the Chat API."""


class OptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One option: the path of its field in the request of each API, with dots between the names; empty if it has none.

    `converted`: its value is another one there, which the codec writes.
    """

    name: str
    openai_responses: str = ""
    anthropic: str = ""
    gemini: str = ""
    ollama: str = ""
    converted: bool = False


OPTIONS: Final = (
    OptionRow(
        name="response_format",
        openai_responses="text.format",
        anthropic="output_config.format",
        gemini="generationConfig.responseJsonSchema",
        ollama="format",
        converted=True,
    ),
    OptionRow(
        name="reasoning_effort",
        openai_responses="reasoning.effort",
        gemini="generationConfig.thinkingConfig",
        ollama="think",
        converted=True,
    ),
    OptionRow(name="verbosity", openai_responses="text.verbosity"),
    *(  # which both APIs of OpenAI have, and no other
        OptionRow(name=name, openai_responses=name)
        for name in (
            "metadata",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "user",
        )
    ),
    OptionRow(name="top_k", anthropic="top_k", gemini="generationConfig.topK", ollama="options.top_k"),
    *(
        OptionRow(name=name, gemini=f"generationConfig.{gemini}", ollama=f"options.{name}")
        for name, gemini in (("presence_penalty", "presencePenalty"), ("frequency_penalty", "frequencyPenalty"))
    ),
    *(  # of local engines, which Ollama takes under the same names
        OptionRow(name=name, ollama=f"options.{name}")
        for name in (
            "min_p",
            "typical_p",
            "repeat_penalty",
            "repeat_last_n",
            "mirostat",
            "mirostat_tau",
            "mirostat_eta",
        )
    ),
)
"""All options that an API other than the Chat API takes; that one gets every option as it came."""
_IMPLIED = frozenset({"stream_options", "store"})
"""Options that the shim answers itself: a usage at the end of a stream, and no storing at the provider."""
_KNOWN = {api: _IMPLIED.union(row.name for row in OPTIONS if getattr(row, api)) for api in get_args(OptionApi)}
"""The names of the options that are sent to each API, or implied."""


def write_options(request: Request, api: OptionApi) -> dict[str, JSON]:
    """Return the copied options of a request, in the fields of an API."""
    written: dict[str, JSON] = {}
    for row in OPTIONS:
        path = getattr(row, api)
        if path and not row.converted and _is_given(request.extra.get(row.name)):
            *outer, last = path.split(".")
            target = written
            for name in outer:
                target = target.setdefault(name, {})
            target[last] = request.extra[row.name]
    return written


def left_out(request: Request, api: str) -> list[str]:
    """Return the names of the request's options that an upstream of that API does not get.

    A client of the same API gets its own fields through, and the Chat API takes every option.
    """
    if api not in _KNOWN or api in request.verbatim:
        return []
    return [name for name, value in request.extra.items() if name not in _KNOWN[api] and _is_given(value)]


def _is_given(value: JSON) -> bool:
    """Return whether a value is not null, as it is decoded or as the bytes that came."""
    return value is not None and not (isinstance(value, msgspec.Raw) and bytes(value) == b"null")
