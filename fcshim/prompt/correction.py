"""The short turn that asks the model for a call again, and says what was wrong with the first one.

Rule: nothing that the model or a tool wrote can pass for a marker in it; the dialect's form is shown as a placeholder.
Neighbours: `render` has the templates (`_shared/correction.jinja`, or the dialect's own), `retry` finds the faults.
"""

from collections.abc import Sequence

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.prompt.escape import Escaper
from fcshim.prompt.render import render_calls, render_correction

_MAX_DEFECTS = 8
_MAX_NAMES = 128
_EXCERPT = 300
"""Characters of what a fault or a call says."""
_PLACEHOLDER_CALL = ("<function name>", '{"<parameter>": "<value>"}')


def write_correction(
    dialect: Dialect,
    defects: Sequence[dict[str, str]],
    escape: Escaper,
    *,
    names: Sequence[str] = (),
    accepted_calls: Sequence[tuple[str, str]] = (),
    optional: bool = False,
) -> str:
    """Write the turn. A fault is a `kind` (`missing`, `unoffered`, `unreadable`, `bad`), a `name` and a `message`.

    `names` of the functions are told where the model may not know them, as they stand in the prompt; `taken` calls,
    each a name and arguments, are not to be repeated. `optional`: the model may as well answer without a call.
    """
    told: list[JSON] = [
        {key: escape(text[:_EXCERPT]) for key, text in fault.items()} for fault in defects[:_MAX_DEFECTS]
    ]
    accepted: list[JSON] = [
        {"name": escape(name), "arguments": escape(arguments[:_EXCERPT])} for name, arguments in accepted_calls
    ]
    return render_correction(
        dialect,
        faults=told,
        names=list(names[:_MAX_NAMES]),
        taken=accepted,
        optional=optional,
        form=render_calls(dialect, [_PLACEHOLDER_CALL]),
    )
