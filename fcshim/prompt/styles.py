"""The table of prompt styles: in which words a prompt offers tools, whatever the dialect of the calls.

A style is a template in `templates/styles`, which gets the listing of the tools and the dialect's own form of a call.
Which style is best depends on the model: `fcshim doctor` measures it (docs/models.md has the figures).
"""

import difflib
import functools
from dataclasses import dataclass
from typing import Literal

from fcshim.errors import ConfigError
from fcshim.model_defaults import defaults_for
from fcshim.prompt.signature import ToolsStyle

AUTO = "auto"
"""The setting that takes what was measured for the model, or what its name implies."""
OWN = "own"

ToolsListing = Literal["auto", ToolsStyle]
"""The setting of the listing: `auto` takes the one of the prompt style."""


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """The words of one prompt. `listing`: how the tools are listed, unless the setting says it.

    `template`: the file in `templates/styles`; empty for the dialect's own words. `after_results`: a line that follows
    the results of each step.
    """

    name: str
    summary: str
    template: str = ""
    listing: ToolsStyle = "schema"
    after_results: str = ""


_AFTER_RESULTS = "If this answers my question, answer it now in plain text. Otherwise make the next call."
"""Without it small models repeat their calls after the results until the client gives up (docs/models.md)."""

OWN_STYLE = PromptStyle(OWN, "the dialect's own words, as its models were trained on them, or close to that")

PROMPT_STYLES: dict[str, PromptStyle] = {
    row.name: row
    for row in (
        OWN_STYLE,
        PromptStyle(
            "example",
            "signatures, short rules, and an example with another tool: two calls, and an answer in text",
            template="example",
            listing="signature",
            after_results=_AFTER_RESULTS,
        ),
        PromptStyle(
            "refusal",
            "the same, with a request in the example that the tool does not fit, for models that call too often",
            template="refusal",
            listing="signature",
            after_results=_AFTER_RESULTS,
        ),
    )
}


DIALECT_STYLES = {"function_call": "example"}
"""The styles of dialects that no model was trained on, by measurement (docs/models.md); others keep their own words."""


def get_style(name: str) -> PromptStyle:
    """Return the style of that name. Raises `ConfigError`, which names the known ones."""
    if name in PROMPT_STYLES:
        return PROMPT_STYLES[name]
    similar = difflib.get_close_matches(name, PROMPT_STYLES, n=1)
    hint = f", did you mean {similar[0]!r}?" if similar else "."
    raise ConfigError(f"unknown prompt style {name!r}{hint} Known styles: {', '.join(PROMPT_STYLES)}")


@functools.lru_cache(maxsize=256)
def chosen_style(setting: str, model: str, dialect: str) -> PromptStyle:
    """Return the style that the setting names, or with `auto` that of the model or the dialect.

    Raises `ConfigError`.
    """
    if setting != AUTO:
        return get_style(setting)
    return get_style(defaults_for(model).prompt_style or DIALECT_STYLES.get(dialect, OWN))
