"""The markup that may stand between the parameters of one call: the dialect's own tags, and other spellings of them.

Theory of operation. Models mix formats: they name a tag after the parameter (`<city>`), write the name in another place
(`<parameter name="city">`, `<parameter>city</parameter>`), or put the parameters into an element of their own
(`<arguments>`). Only a spelling that names a parameter of the tool counts, so that the schema makes it certain.

Rule: bounded look-ahead, no state but the open wrapper; more text never changes a result.
"""

import functools
import re
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

from fcshim.parse.tagged.tags import WRAPPERS, CompiledTags, MarkerKind, NamedTag, Tag, TagMatch, read_spelled_tag

_MAX_SPELLING = 400
"""Characters of one opening tag in another spelling."""
_KEY = r"[^\s<>/=\"']{1,256}"
_WORDS = "parameter|param|argument|arg|arg_key|param_key"
_MARKUP = re.compile(r"[\"'“”‘’=;\ufffd\u200b-\u200f\u2028\u2029\ufeff\x00-\x1f]")
"""Characters that markup has, and no name of a parameter."""
_TAG_CHARACTERS = "=<>|/\"' "
_CHILD = re.compile(rf"<({_KEY})\s{{0,4}}(/?)>")
_WORD_TAG = re.compile(rf"<({_WORDS})(?=[\s=])")
_NAME_ELEMENT = re.compile(rf"\s{{0,4}}(?P<name>{_KEY})\s{{0,4}}</(?P<word>{_WORDS})>")
_PARTIAL_NAME_ELEMENT = re.compile(rf"\s{{0,4}}(?:{_KEY}\s{{0,4}}(?:</?[a-z_]{{0,16}})?)?\Z")
_NAME_WORDS = frozenset(_WORDS.split("|"))
_VALUE_OPENINGS = {"<value>": "</value>", "<arg_value>": "</arg_value>", "<param_value>": "</param_value>"}
"""The element of a value whose name has an element of its own."""
_MAX_OBJECT_TAG = 100
BetweenKind = MarkerKind | Literal["markup"]
"""The kind of what stands between parameters; `markup` adds nothing (a comment, a wrapper)."""


class CallMarkup:
    """Recognises the markup of one call; `keys` are the parameters of its tool, empty where they are not known."""

    def __init__(self, compiled: CompiledTags, keys: AbstractSet[str]) -> None:
        self.compiled = compiled
        self.keys = keys
        self._own_close = ""
        """The dialect's closing tag, inside a value that another tag closes."""
        self._wrapper = ""
        """The wrapper that is open."""

    @property
    def has_open_wrapper(self) -> bool:
        """True inside an element for all parameters."""
        return bool(self._wrapper)

    def kind_at(self, text: str, pos: int) -> BetweenKind | Literal[False] | None:
        """Return the kind of the markup at `pos`: False for none, None where more text is needed."""
        kind = self.compiled.kind_at(text, pos)
        if kind is not False and kind != "parameter":
            return kind
        if kind == "parameter":
            own = self._read_own(text, pos)
            if own is not False:
                return None if own is None else "parameter"
        return self._other_kind(text, pos)

    def kind_after_space(self, text: str, pos: int) -> BetweenKind | Literal[False] | None:
        """Return the same for the text after the white space at `pos`."""
        return self.kind_at(text, self.compiled.skip_space(text, pos))

    def _other_kind(self, text: str, pos: int) -> Literal["parameter", "markup"] | Literal[False] | None:
        found = self._read_spelling(text, pos)
        if found is not False:
            return None if found is None else "parameter"
        end = self.end_of_markup(text, pos)
        return None if end is None else "markup" if end > pos else False

    def read_parameter(self, text: str, pos: int) -> TagMatch:
        """Read a parameter's opening in any spelling, up to its value."""
        own = self._read_own(text, pos)
        if own and self._own_close:
            return own._replace(close=self._own_close)
        return own if own is not False else self._read_spelling(text, pos)

    def _read_own(self, text: str, pos: int) -> TagMatch:
        """Read the dialect's own opening; its name may not hold a piece of the markup around it."""
        own = self.compiled.read_parameter(text, pos)
        return False if own and own.name not in self.keys and self._holds_markup(own.name) else own

    def _holds_markup(self, name: str) -> bool:
        return name.strip(_TAG_CHARACTERS) in self.keys or _MARKUP.search(name) is not None

    def end_of_markup(self, text: str, pos: int) -> int | None:
        """Return the end of the markup at `pos` that adds nothing: `pos` for none, None where more text is needed."""
        element_end = self._end_of_object_tag(text, pos) if self.compiled.tags.object_open else pos
        if element_end != pos:
            return element_end
        tag_end = _tag_end(text, pos)
        if tag_end is None:
            return None
        return tag_end if self._is_wrapper(text[pos + 1 : tag_end - 1]) else pos

    def _end_of_object_tag(self, text: str, pos: int) -> int | None:
        """Return the end of a tag of the element around a JSON object: `pos` for none, None for more text."""
        tags = self.compiled.tags
        if text.startswith(tags.object_close, pos):
            return pos + len(tags.object_close)
        if text.startswith(tags.object_open, pos):
            end = text.find(tags.parameter.end, pos, pos + _MAX_OBJECT_TAG)
            complete = len(text) - pos >= _MAX_OBJECT_TAG
            return end + len(tags.parameter.end) if end >= 0 else pos if complete else None
        ahead = text[pos:]
        return None if tags.object_open.startswith(ahead) or tags.object_close.startswith(ahead) else pos

    def _is_wrapper(self, name: str) -> bool:
        return name not in self.keys and (name in WRAPPERS or (bool(self._wrapper) and name == f"/{self._wrapper}"))

    def pass_markup(self, text: str, pos: int) -> int:
        """Pass over the markup at `pos`, which is complete; return its end."""
        end = self.end_of_markup(text, pos)
        assert end is not None
        name = text[pos + 1 : end - 1]
        if self._is_wrapper(name):
            self._wrapper = "" if name[0] == "/" else name
        return end

    # Other spellings.

    def _read_spelling(self, text: str, pos: int) -> TagMatch:
        """Read an opening in another spelling; only one that names a parameter of the tool counts."""
        if not self.keys or not text.startswith("<", pos):
            return False
        if _tag_end(text, pos) is None:
            return None
        word = _WORD_TAG.match(text, pos)
        if word is not None:
            return self._read_word_tag(word[1], text, pos)
        child = _CHILD.match(text, pos)
        if child is None:
            return False
        name = child[1]
        if name in self.keys:
            return NamedTag(name, "", child.end(), close=f"</{name}>", is_empty=bool(child[2]))
        return self._read_name_element(name, text, child.end()) if name in _NAME_WORDS and not child[2] else False

    def _read_word_tag(self, word: str, text: str, pos: int) -> TagMatch:
        """Read a tag of another format whose attribute is the name."""
        for attribute in ("name", "key"):
            found = read_spelled_tag(Tag(f"<{word}", attribute=attribute), text, pos)
            if found and found.name in self.keys:
                return found._replace(close=f"</{word}>")
        return False

    def _read_name_element(self, word: str, text: str, pos: int) -> TagMatch:
        """Read the name in an element of its own, and the opening of the value if it has one too."""
        found = _NAME_ELEMENT.match(text, pos)
        if found is None:
            return None if _PARTIAL_NAME_ELEMENT.match(text, pos) else False
        if found["word"] != word or found["name"] not in self.keys:
            return False
        at = self.compiled.skip_space(text, found.end())
        for opening, close in _VALUE_OPENINGS.items():
            if text.startswith(opening, at):
                return NamedTag(found["name"], "", at + len(opening), close=close)
        if any(opening.startswith(text[at:]) for opening in _VALUE_OPENINGS):
            return None
        is_damaged = text[at] == "<"
        return False if is_damaged else NamedTag(found["name"], "", found.end(), close=f"</{word}>", is_unclosed=True)

    # Values.

    def for_value(self, tag: NamedTag) -> "CallMarkup":
        """Return the markup as it is inside the value of this parameter, whose closing tag may be another one."""
        if not tag.close:
            return self
        inner = CallMarkup(_compile_spelling(self.compiled, tag.close, frozenset(self.keys)), self.keys)
        inner._own_close, inner._wrapper = self.compiled.tags.parameter_close, self._wrapper  # a copy of itself
        return inner


def _tag_end(text: str, pos: int) -> int | None:
    """Return the end of the tag at `pos`: `pos` where there is none, None where more text is needed."""
    if not text.startswith("<", pos):
        return pos
    end = text.find(">", pos, pos + _MAX_SPELLING)
    broken = text.find("\n", pos, end if end >= 0 else pos + _MAX_SPELLING) >= 0
    if broken or (end < 0 and len(text) - pos >= _MAX_SPELLING):
        return pos
    return None if end < 0 else end + 1


@functools.lru_cache(maxsize=256)
def _compile_spelling(compiled: CompiledTags, close: str, keys: frozenset[str]) -> CompiledTags:
    """Return the tags inside a value that another tag closes: further parameters may be written in that way too."""
    tags = replace(compiled.tags, parameter_close=close, lines=True, quote_open="", quote_close="")
    openings = [f"<{key}>" for key in sorted(keys)] + [f"<{word}>" for word in sorted(_NAME_WORDS - keys)]
    return CompiledTags(tags, compiled.start_markers, compiled.end_markers, tuple(openings))
