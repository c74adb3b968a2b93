"""Defines the options of a request to a model, under the names of the Chat API and of the local engines.

Rule: a name that is not listed is a mistake of the caller, not a field to send; `extra_body` takes any other field.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import TypedDict

from fcshim.events import JSON


class Sampling(TypedDict, total=False):
    """The options that every request may have; all are optional."""

    model: str
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    max_completion_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None
    n: int | None
    tool_choice: str | Mapping[str, JSON] | None
    parallel_tool_calls: bool
    response_format: Mapping[str, JSON] | None
    reasoning_effort: str | None
    frequency_penalty: float | None
    presence_penalty: float | None
    logit_bias: JSON
    logprobs: bool | None
    top_logprobs: int | None
    verbosity: str | None
    metadata: Mapping[str, str] | None
    store: bool | None
    user: str | None
    service_tier: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    prediction: Mapping[str, JSON] | None
    modalities: Sequence[str] | None
    audio: Mapping[str, JSON] | None
    web_search_options: Mapping[str, JSON] | None
    # What local engines take besides.
    top_k: int
    min_p: float
    typical_p: float
    min_tokens: int
    repeat_penalty: float
    repeat_last_n: int
    repetition_penalty: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    ignore_eos: bool
    cache_prompt: bool
    id_slot: int
    n_predict: int
    grammar: str
    chat_template_kwargs: Mapping[str, JSON]
    extra_body: Mapping[str, JSON]


_OTHERS = ("max_rounds", "on_event", "output_type", "tools")
"""Parameters of the client's methods, which a misspelt option may have meant."""


def request_fields(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the fields to send. Raises `TypeError` for an unknown option, as Python does for an unknown argument."""
    for name in options:
        if name not in Sampling.__annotations__:
            similar = difflib.get_close_matches(name, [*Sampling.__annotations__, *_OTHERS], n=1)
            hint = (
                f"did you mean {similar[0]!r}?" if similar else f"if your server knows it: extra_body={{{name!r}: ...}}"
            )
            raise TypeError(f"there is no option {name!r}; {hint}")
    extra = options.get("extra_body") or {}
    return {**{name: value for name, value in options.items() if name != "extra_body"}, **extra}
