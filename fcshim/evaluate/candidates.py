"""The table of candidates: settings of `Client` that the doctor compares for a model.

A row is a name for the report and settings of one model, as `[models."NAME"]` has them. A new prompt style or
constraint is a row.
"""

from dataclasses import dataclass, field

from fcshim.evaluate.result import NATIVE
from fcshim.events import JSON
from fcshim.model_defaults import defaults_for
from fcshim.prompt.styles import AUTO, OWN, chosen_style


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of the table."""

    name: str
    settings: dict[str, JSON] = field(hash=False)


def _in_dialect(dialect: str, style: str = OWN) -> Candidate:
    name = dialect if style == OWN else f"{dialect}, {style}"
    return Candidate(name, {"tools": "prompt", "dialect": dialect, "prompt_style": style})


NATIVE_TOOLS = Candidate(NATIVE, {"tools": "native"})
COMMON_CANDIDATES = (
    _in_dialect("function_call", "example"),
    _in_dialect("function_call", "refusal"),
    *map(_in_dialect, ("bare_json", "function_call", "fenced_json", "pythonic", "hermes")),
)
"""What models can follow without training on it. The order counts where time is short: those that suit the most models
come first."""


def candidates_for(model: str, *, native: bool, provider_api: bool) -> tuple[Candidate, ...]:
    """Return the candidates for a model, in the order in which they are tried.

    `native`: native tool calling may work. `provider_api`: the API is the model provider's, so with `native` nothing
    else is compared. The model's own dialect is derived from its name.
    """
    if native and provider_api:
        return (NATIVE_TOOLS,)
    dialect = defaults_for(model).dialect
    own = _in_dialect(dialect, chosen_style(AUTO, model, dialect).name)
    rows = (own, *COMMON_CANDIDATES[:3], *([NATIVE_TOOLS] if native else []), *COMMON_CANDIDATES[2:])
    return tuple({row.name: row for row in rows}.values())
