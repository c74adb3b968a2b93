"""When a grammar that waits begins: fields for llama-server's `/completion`, where text is free up to then.

Theory of operation. The server looks for a pattern in the text whenever a token has come, and has the grammar read what
was found, from there to the end of that token. A token may end anywhere in a marker, and one that goes on behind it in
a way that the grammar does not admit would end the reply with an error. So the pattern finds text that ends *within*
the marker, from its first character on, and the grammar is one that admits all other text as well.
Rule: no pattern repeats anything: the server's search goes one level deeper for each repetition.
Neighbours: `constraint` puts the fields into a request, `codecs.llama_completion` sends them.
"""

import re
from collections.abc import Iterable, Sequence

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.parse.machine.surroundings import REASONING_TAGS

LAZY_FIELDS = ("grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens")
"""The fields that such a grammar takes."""

_PATTERN = 2
"""The server's number for a trigger that is a regular expression."""
_SPECIAL = re.compile(r"[\\^$.*+?()\[\]{}|/]")
_TOKEN = re.compile(r"<[^<>]+>|\[[^\[\]]+\]")
"""What may be one token by itself, which the server leaves out of the text unless it is told not to."""


def lazy_fields(dialect: Dialect, starts: Sequence[str]) -> dict[str, JSON]:
    """Give the fields beside a grammar that waits for one of `starts`."""
    return {"grammar_lazy": True, "grammar_triggers": triggers(starts), "preserved_tokens": _tokens(dialect)}


def triggers(starts: Iterable[str]) -> list[JSON]:
    """Give what fires once the text ends within one of `starts`."""
    return [{"type": _PATTERN, "value": f"({_beginning(start)})(?![\\s\\S])"} for start in starts]


def _beginning(marker: str) -> str:
    """Give the pattern of what the marker begins with, at least one character of it."""
    pattern = ""
    for char in reversed(marker):
        literal = _SPECIAL.sub(r"\\\g<0>", char)
        pattern = f"{literal}(?:{pattern})?" if pattern else literal
    return pattern


def _tokens(dialect: Dialect) -> list[str]:
    """Give what the parser must see of what may be special tokens: the dialect's, and the tags of reasoning."""
    reasoning = [tag for tags in REASONING_TAGS for tag in tags]
    own = (*dialect.section_openers(), *dialect.openers(), *dialect.closers(), dialect.quote, *dialect.markup)
    return list(dict.fromkeys(token for text in (*own, *reasoning) for token in _TOKEN.findall(text)))
