"""The opening of a call in a `response_template`, as the header of JSON.

Theory of operation. A start marker is the literal text that a field's opening pattern begins with. The rest of the
pattern is matched behind it; it may have the tool's name. JSON behind that is read like any JSON with a header.
"""

import functools
import json
from dataclasses import dataclass
from typing import Literal

from fcshim.parse.json.header import HeaderMatch, HeaderShape
from fcshim.parse.response_template.pattern import (
    PatternGroup,
    PatternMatch,
    PatternNode,
    compile_pattern,
    longest_literal,
    sample_text,
)

_MAX_OPENING = 256
"""Characters of a field's opening: a name of 128 characters and the markers around it fit."""
_SHORT_OPENING = 32
"""A longer text is matched only if it has the pattern's literal text: each piece of a reply is matched anew."""


@functools.lru_cache(maxsize=8)  # a header asks for a match, and then whether there may still be one
def _match(node: PatternNode, window: str) -> PatternMatch | Literal[False] | None:
    """Match at the start of a window: False if nothing matches, None if more text could change the result."""
    may_grow = len(window) < _MAX_OPENING
    if len(window) > _SHORT_OPENING and longest_literal(node) not in window:
        return None if may_grow else False
    pattern = compile_pattern(node)
    found = pattern.match(window)
    if pattern.hit_end and may_grow:
        return None
    return False if found is None else found


@dataclass(frozen=True, slots=True)
class _OpeningMatch:
    """A header match, with the name from the group that the template says."""

    found: PatternMatch
    group: str

    def end(self) -> int:
        return self.found.end

    def __getitem__(self, _key: str) -> str:
        return self.found.groups.get(self.group, "")


_NOTHING = PatternGroup(())


@dataclass(frozen=True, slots=True)
class OpeningPattern:
    """The rest of an opening pattern, after its literal start."""

    node: PatternNode = _NOTHING
    name_group: str = ""

    def match(self, text: str, pos: int) -> PatternMatch | Literal[False] | None:
        """Match at `pos`: False if nothing matches, None if more text could change the result."""
        found = _match(self.node, text[pos : pos + _MAX_OPENING])
        return PatternMatch(pos, pos + found.end, found.groups) if found else found

    def write(self, name: str) -> str:
        """Return a text that matches, with the tool's name."""
        return sample_text(self.node, {self.name_group: name})


_NO_OPENING = OpeningPattern()


@dataclass(frozen=True, slots=True)
class TemplateHeader(HeaderShape):
    """The rest of an opening pattern as the header of JSON."""

    opening: OpeningPattern = _NO_OPENING

    def match_header(self, text: str, pos: int) -> HeaderMatch | None:
        """Match a complete header."""
        found = self.opening.match(text, pos)
        return _OpeningMatch(found, self.opening.name_group) if found else None

    def may_still_match(self, text: str, pos: int) -> bool | None:
        """Return None if text that does not match may be the beginning of a header, else False."""
        return None if self.opening.match(text, pos) is None else False

    def write_call(self, opening: str, closing: str, name: str, arguments: str) -> str:
        """Write a call for the prompt; `arguments` is JSON text."""
        if self.json is not None:
            name_key, arguments_key = self.json.name_keys[0], self.json.argument_keys[0]
            arguments = f'{{"{name_key}": {json.dumps(name, ensure_ascii=False)}, "{arguments_key}": {arguments}}}'
        return f"{opening}{self.opening.write(name)}{arguments}{closing}"
