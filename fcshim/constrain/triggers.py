"""The triggers of a lazy grammar: fields of llama-server's `/completion`, with which text is free up to a trigger.

Theory of operation. After each token, the server searches the text for the trigger patterns; on a match, the grammar
reads the text from the start of the match to the end of the token. A token may end anywhere in a marker, and if it
continues after the marker in a way that the grammar does not admit, the server ends the reply with an error (500
"Unexpected empty grammar stack"). So the pattern matches text that ends *within* the marker, from its first character
on, and the grammar admits all other text as well. The end tag of reasoning only begins more such text, so its trigger
is the whole tag.
Rule: no pattern has a repetition or a capturing group. The server searches the whole text again for each token;
its regex engine recurses once per repetition, and groups make it slower.
"""

import re
from collections.abc import Sequence

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.parse.machine.known_markers import REASONING_TAGS

LAZY_FIELDS = ("grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens")
"""The request fields of a lazy grammar."""

_PATTERN_TRIGGER = 2
"""llama-server's number for a trigger that is a regular expression."""
_REGEX_SPECIAL = re.compile(r"[\\^$.*+?()\[\]{}|/]")
_TOKEN = re.compile(r"<[^<>]+>|\[[^\[\]]+\]")
"""Text that may be one special token, which the server drops from the text unless it is in `preserved_tokens`."""


def lazy_fields(dialect: Dialect, triggers: Sequence[JSON]) -> dict[str, JSON]:
    """Return the fields that make a grammar wait for one of `triggers`."""
    # The markers that may be special tokens and that the parser must see: the dialect's, and reasoning tags.
    reasoning = [tag for tags in REASONING_TAGS for tag in tags]
    own = (*dialect.section.openers(), *dialect.openers(), *dialect.closers(), dialect.quote, *dialect.turn.tokens)
    preserved = dict.fromkeys(token for text in (*own, *reasoning) for token in _TOKEN.findall(text))
    return {"grammar_lazy": True, "grammar_triggers": list(triggers), "preserved_tokens": list(preserved)}


def partial_marker_trigger(marker: str) -> JSON:
    """Return the trigger that fires when the text ends with a nonempty prefix of the marker."""
    pattern = ""
    for char in reversed(marker):
        pattern = f"{_literal(char)}(?:{pattern})?" if pattern else _literal(char)
    return _trigger(f"{pattern}(?![\\s\\S])")


def whole_tag_trigger(tag: str) -> JSON:
    """Return the trigger that fires when the tag is complete."""
    return _trigger(_literal(tag))


def _trigger(pattern: str) -> JSON:
    return {"type": _PATTERN_TRIGGER, "value": pattern}


def _literal(text: str) -> str:
    return _REGEX_SPECIAL.sub(r"\\\g<0>", text)
