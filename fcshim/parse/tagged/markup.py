"""The markup that may stand between the parameters of one call: the dialect's own tags, and other spellings of them.

Theory of operation. Models mix formats: they name a tag after the parameter (`<city>`), write the name in another place
(`<parameter name="city">`, `<parameter>city</parameter>`), or put the parameters into an element of their own
(`<arguments>`). Only a spelling that names a parameter of the tool counts, so that the schema makes it certain.

Rule: bounded look-ahead, no state but the open wrapper; more text never changes a result (else `MoreNeeded`).
"""

import functools
import re
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

from fcshim.parse.scanner import Scanner
from fcshim.parse.tagged.tag_reading import SPACE, WRAPPERS, CompiledTags, MarkerKind, NamedTag, read_spelled_tag
from fcshim.parse.tagged.tags import Tag

_KEY = re.compile(r"[^\s<>/=\"']{1,256}")
_MARKUP = re.compile(r"[\"'“”‘’=;\ufffd\u200b-\u200f\u2028\u2029\ufeff\x00-\x1f]")
"""Characters that markup has, and no name of a parameter."""
_TAG_CHARACTERS = "=<>|/\"' "
_NAME_WORDS = frozenset({"parameter", "param", "argument", "arg", "arg_key", "param_key"})
BetweenKind = MarkerKind | Literal["markup"]
"""The kind of what stands between parameters; `markup` adds nothing (a wrapper)."""


class CallMarkup:
    """Recognises the markup of one call; `keys` are the parameters of its tool, empty where they are not known."""

    def __init__(
        self, compiled: CompiledTags, keys: AbstractSet[str], *, own_close: str = "", wrapper: str = ""
    ) -> None:
        """Prepare the markup; `own_close` is the dialect's closing tag, inside a value that another tag closes."""
        self.compiled = compiled
        self.keys = keys
        self._own_close = own_close
        self._openings = tuple(f"<{name}>" for name in WRAPPERS if name not in keys)
        self.wrapper = wrapper
        """The opening tag of the element for all parameters that is open."""

    def kind_at(self, text: str, pos: int) -> BetweenKind | None:
        """Return the kind of the markup at `pos`, None for none."""
        kind = self.compiled.kind_at(text, pos)
        if kind is not None and kind != "parameter":
            return kind
        if self.read_parameter(text, pos) is not None:
            return "parameter"
        return "markup" if self.end_of_markup(text, pos) > pos else None

    def kind_after_space(self, text: str, pos: int) -> BetweenKind | None:
        """Return the same for the text after the white space at `pos`."""
        return self.kind_at(text, self.compiled.skip_space(text, pos))

    def read_parameter(self, text: str, pos: int) -> NamedTag | None:
        """Read a parameter's opening in any spelling, up to its value."""
        own = self.compiled.read_parameter(text, pos)
        holds_markup = own is not None and (own.name.strip(_TAG_CHARACTERS) in self.keys or _MARKUP.search(own.name))
        if own is not None and (own.name in self.keys or not holds_markup):
            return own._replace(close=self._own_close)
        return self._read_spelling(text, pos)

    def end_of_markup(self, text: str, pos: int) -> int:
        """Return the end of the markup at `pos` that adds nothing: `pos` for none."""
        scan = Scanner(text, pos)
        scan.skip(*filter(None, (self.wrapper and f"</{self.wrapper[1:]}", *self._openings)))
        return scan.pos

    def pass_markup(self, text: str, pos: int) -> int:
        """Pass over the markup at `pos`, which is complete; return its end."""
        end = self.end_of_markup(text, pos)
        self.wrapper = text[pos:end] if text[pos:end] in self._openings else ""
        return end

    # Other spellings.

    def _read_spelling(self, text: str, pos: int) -> NamedTag | None:
        """Read an opening in another spelling; only one that names a parameter of the tool counts."""
        if not self.keys or not text.startswith("<", pos):
            return None
        scan = Scanner(text, pos + 1)
        word = scan.take(_KEY)
        if word in _NAME_WORDS and (scan.peek() == "=" or scan.peek().isspace()):
            tags = (read_spelled_tag(Tag(f"<{word}", attribute=each), text, pos) for each in ("name", "key"))
            return next((tag._replace(close=f"</{word}>") for tag in tags if tag and tag.name in self.keys), None)
        scan.take(SPACE)
        end = scan.skip("/>", ">") if word else ""
        if end and word in self.keys:
            return NamedTag(word, "", scan.pos, close=f"</{word}>", is_empty=end == "/>")
        return self._read_name_element(word, scan) if end == ">" and word in _NAME_WORDS else None

    def _read_name_element(self, word: str, scan: Scanner) -> NamedTag | None:
        """Read the name in an element of its own, before a value that has none."""
        scan.take(SPACE)
        name = scan.take(_KEY)
        scan.take(SPACE)
        if name not in self.keys or not scan.skip(f"</{word}>"):
            return None
        end = scan.pos
        scan.take(SPACE)
        is_damaged = scan.peek() == "<"
        return None if is_damaged else NamedTag(name, "", end, close=f"</{word}>", is_unclosed=True)

    # Values.

    def for_value(self, tag: NamedTag) -> "CallMarkup":
        """Return the markup as it is inside the value of this parameter, whose closing tag may be another one."""
        if not tag.close:
            return self
        compiled = _compile_spelling(self.compiled, tag.close, frozenset(self.keys))
        return CallMarkup(compiled, self.keys, own_close=self.compiled.tags.parameter_close, wrapper=self.wrapper)


@functools.lru_cache(maxsize=256)
def _compile_spelling(compiled: CompiledTags, close: str, keys: frozenset[str]) -> CompiledTags:
    """Return the tags inside a value that another tag closes: further parameters may be written in that way too."""
    tags = replace(compiled.tags, parameter_close=close, lines=True, quote_open="", quote_close="")
    openings = [f"<{key}>" for key in sorted(keys)] + [f"<{word}>" for word in sorted(_NAME_WORDS - keys)]
    return CompiledTags(tags, compiled.start_markers, compiled.end_markers, tuple(openings))
