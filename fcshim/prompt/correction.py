"""The short turn that asks the model for a call again, and says what was wrong with the first one.

Rule: nothing that the model or a tool wrote can pass for a marker in it; the dialect's form is shown as a placeholder.
Neighbours: `render` has the templates (`_shared/correction.jinja`, or the dialect's own), `retry` finds the faults.
"""

from collections.abc import Sequence

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.prompt.neutralise import Neutraliser
from fcshim.prompt.render import render_calls, render_correction

_MOST_FAULTS = 8
_MOST_NAMES = 128
_EXCERPT = 300
"""Characters of what a fault or a call says."""
_FORM = ("<function name>", '{"<parameter>": "<value>"}')


def write_correction(
    dialect: Dialect,
    faults: Sequence[dict[str, str]],
    neutralise: Neutraliser,
    *,
    names: Sequence[str] = (),
    taken: Sequence[tuple[str, str]] = (),
    optional: bool = False,
) -> str:
    """Write the turn. A fault is a `kind` (`missing`, `unoffered`, `unreadable`, `bad`), a `name` and a `message`.

    `names` of the functions are told where the model may not know them, as they stand in the prompt; `taken` calls,
    each a name and arguments, are not to be repeated. `optional`: the model may as well answer without a call.
    """
    told: list[JSON] = [
        {key: neutralise(text[:_EXCERPT]) for key, text in fault.items()} for fault in faults[:_MOST_FAULTS]
    ]
    accepted: list[JSON] = [
        {"name": neutralise(name), "arguments": neutralise(arguments[:_EXCERPT])} for name, arguments in taken
    ]
    return render_correction(
        dialect,
        faults=told,
        names=list(names[:_MOST_NAMES]),
        taken=accepted,
        optional=optional,
        form=render_calls(dialect, [_FORM]),
    )
