"""The short user turn that reports what was wrong with a call and asks for it again.

Rule: text of the model or a tool is escaped, so that it cannot be read as a marker; the call format is shown with
placeholders.
"""

from collections.abc import Sequence

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.prompt.content import Escaper
from fcshim.prompt.render import PLACEHOLDER_CALL, render_calls, render_correction

_MAX_DEFECTS = 8
_MAX_NAMES = 128
_EXCERPT = 300
"""Characters of each text of a defect, and of a call's arguments."""


def write_correction(
    dialect: Dialect,
    defects: Sequence[dict[str, str]],
    escape: Escaper,
    *,
    names: Sequence[str] = (),
    accepted_calls: Sequence[tuple[str, str]] = (),
    optional: bool = False,
    answer: bool = False,
) -> str:
    """Write the turn. A defect has a `kind`, a `name` and a `message`.

    The kinds are `missing`, `unoffered`, `unreadable`, `result`, `copied`, `repeated` and `bad`.
    `names` lists the functions, as in the prompt, where the model may not know them. `accepted_calls`, names with
    arguments, are not to be repeated. `optional`: the model may answer without a call.
    `answer`: it has the results to answer with, so that the call format is not shown, which it would repeat.
    """
    distinct = list({tuple(sorted(defect.items())): defect for defect in defects}.values())
    excerpts: list[JSON] = [
        {key: escape(text[:_EXCERPT]) for key, text in defect.items()} for defect in distinct[:_MAX_DEFECTS]
    ]
    accepted: list[JSON] = [
        {"name": escape(name), "arguments": escape(arguments[:_EXCERPT])} for name, arguments in accepted_calls
    ]
    return render_correction(
        dialect,
        faults=excerpts,
        names=list(names[:_MAX_NAMES]),
        taken=accepted,
        optional=optional,
        answer=answer and optional,
        form=render_calls(dialect, [PLACEHOLDER_CALL]),
    )
