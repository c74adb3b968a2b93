"""When a grammar that waits begins: fields for llama-server's `/completion`, where text is free up to then.

Theory of operation. The server looks for a pattern in the text whenever a token has come, and has the grammar read what
was found, from there to the end of that token. A token may end anywhere in a marker, and one that goes on behind it in
a way that the grammar does not admit would end the reply with an error. So the pattern finds text that ends *within*
the marker, from its first character on, and the grammar is one that admits all other text as well. What opens nothing
but such text, the end of reasoning, is waited for until it is whole.
Rule: no pattern repeats or captures anything: the server's search, which goes over all of the text at each token, goes
one level deeper for each repetition, and takes longer for a group.
Neighbours: `constraint` puts the fields into a request, `codecs.llama_completion` sends them.
"""

import re
from collections.abc import Sequence

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.parse.machine.context import REASONING_TAGS

LAZY_FIELDS = ("grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens")
"""The fields that such a grammar takes."""

_PATTERN_TRIGGER = 2
"""The server's number for a trigger that is a regular expression."""
_REGEX_SPECIAL = re.compile(r"[\\^$.*+?()\[\]{}|/]")
_TOKEN = re.compile(r"<[^<>]+>|\[[^\[\]]+\]")
"""What may be one token by itself, which the server leaves out of the text unless it is told not to."""


def lazy_fields(dialect: Dialect, triggers: Sequence[JSON]) -> dict[str, JSON]:
    """Give the fields beside a grammar that waits for one of `triggers`."""
    return {"grammar_lazy": True, "grammar_triggers": list(triggers), "preserved_tokens": _preserved_tokens(dialect)}


def partial_marker_trigger(marker: str) -> JSON:
    """Give the trigger that fires once the text ends within the marker, one character of it at least."""
    pattern = ""
    for char in reversed(marker):
        pattern = f"{_literal(char)}(?:{pattern})?" if pattern else _literal(char)
    return _trigger(f"{pattern}(?![\\s\\S])")


def whole_tag_trigger(tag: str) -> JSON:
    """Give the trigger that fires once the tag is whole."""
    return _trigger(_literal(tag))


def _trigger(pattern: str) -> JSON:
    return {"type": _PATTERN_TRIGGER, "value": pattern}


def _literal(text: str) -> str:
    return _REGEX_SPECIAL.sub(r"\\\g<0>", text)


def _preserved_tokens(dialect: Dialect) -> list[str]:
    """Give what the parser must see of what may be special tokens: the dialect's, and the tags of reasoning."""
    reasoning = [tag for tags in REASONING_TAGS for tag in tags]
    own = (*dialect.section_openers(), *dialect.openers(), *dialect.closers(), dialect.quote, *dialect.markup)
    return list(dict.fromkeys(token for text in (*own, *reasoning) for token in _TOKEN.findall(text)))
