"""The names of markers that are tags or tokens, and which texts have no name that could be one.

Rule: the test of a text is necessary, not sufficient: it ignores how long a name, a gap or a row of underscores is, and
how a tag ends. Most text has brackets, but few different names after them, so that each name is judged once, and the
names that cannot be a marker's are remembered, up to a limit.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.parse.machine.known_markers import CHAT_TURN_MARKERS, REASONING_TAGS
from fcshim.prompt.plain_markers import header_words

# Invisible characters, which a model or a lenient parser ignores.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e007f"
)
_IGNORED = re.compile(rf"[_\-{INVISIBLE}]+")


def name_key(name: str) -> str:
    """Normalise a marker's name for comparison."""
    return _IGNORED.sub("", name).rpartition(":")[2].casefold()


# What no dialect, turn or reasoning tag of `parse` says: results and calls of other model families (another parser may
# read the reply after fcshim), and tokens of chat templates.
# Tags that are markers by their name alone, whatever follows it. Case, hyphens, underscores, a namespace
# (`minimax:tool_call`) and invisible characters are ignored.
_TAGS = (
    "invoke", "tool_result", "tool_code", "tool_outputs", "function_results",
    "start_function_declaration", "end_function_declaration", "thought", "reasoning",
    # turns of Gemma and SmolVLM; `system_note` marks system messages after the first turn (`history.as_system_note`)
    "end_of_turn", "end_of_utterance", "system_note",
)  # fmt: skip
# Tags that are tokens only with `>` directly after the name; otherwise they are too common (`<s`, `<sys/types.h>`).
_CLOSED_TAGS = (
    "s", "bos", "eos", "pad", "unk", "mask", "sep", "cls", "sys", "eot", "eod",
    "media", "image", "audio", "video", "start_of_image", "end_of_image", "image_soft_token",  # llama-server, Gemma
)  # fmt: skip
# Control tokens in square brackets, of the Mistral family.
_BRACKETS = (
    "AVAILABLE_TOOLS", "TOOL_CONTENT", "SYSTEM_PROMPT", "IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO",
    "PREFIX", "MIDDLE", "SUFFIX", "MODEL_SETTINGS",
)  # fmt: skip


def markers(dialect: Dialect) -> tuple[str, ...]:
    """Return the markers of a dialect's calls and results that are tags or tokens; `plain_markers` has the others."""
    own = (*dialect.call_markers(), *dialect.section.openers(), dialect.result.open, dialect.result.close)
    return tuple(marker for marker in own if marker[:1] in {"<", "＜", "["})


TURNS = sorted({*CHAT_TURN_MARKERS, *(tag.strip() for pair in REASONING_TAGS for tag in pair)})
"""Turn markers and reasoning tags: a copied closing tag would end reasoning early."""
_TOKENS = [
    *(token for row in DIALECTS.values() for token in (*row.turn.tokens, row.quote, *header_words(row.body))),
    *TURNS,
]
_MARKERS = sorted({marker for dialect in DIALECTS.values() for marker in markers(dialect)})
PIPED = [marker.lstrip("</") for marker in _MARKERS if re.match(r"</?\w+\|\w", marker)]
"""Markers with a bar inside, which the pattern of names does not cover."""
BEGINNINGS = [*(marker[1:] for marker in _MARKERS if marker[-1] not in ">]"), *PIPED]
"""Markers without a closing bracket (attributes may follow) too: they are markers whatever comes after them."""


def keys_of(names: Iterable[str]) -> frozenset[str]:
    """Return the normalised names, without empty ones."""
    return frozenset(filter(None, map(name_key, names)))


def _whole_tags(tags: Iterable[str]) -> list[str]:
    return [tag.strip("</>") for tag in tags if re.fullmatch(r"</?[\w:]+>", tag)]


_NAMES = [marker.strip("<[/]>") for marker in _MARKERS]
_TOKENS_IN_BRACKETS = [token.strip("[/]") for token in _TOKENS if re.fullmatch(r"\[/?\w+\]", token)]
OPEN_KEYS = keys_of((*_TAGS, *_NAMES, *_whole_tags(TURNS)))
"""Names of tags that are markers whatever follows the name."""
CLOSED_KEYS = keys_of((*_CLOSED_TAGS, *_whole_tags(_TOKENS)))
"""Names of tags that are markers with a closing bracket directly after the name."""
BRACKET_KEYS = keys_of((*_BRACKETS, *_NAMES, *_TOKENS_IN_BRACKETS))
"""Names that are markers between square brackets."""


_NAME = rf"[\w:\-{INVISIBLE}]++"
_GAP = rf"[\s_{INVISIBLE}]*+"
_BEFORE_NAME = rf"{_GAP}(?:\\?/{_GAP})?"
_SKIPPED = rf"[\s_/\\{INVISIBLE}]*+"
"""A gap, a slash and a gap as one class: most of the time is spent here. It may skip an opening with a backslash."""
_TAG_NAME = rf"{_SKIPPED}([\w:\-|｜{INVISIBLE}]++)"
_TAG_NAMES = {
    "<": f"<{_TAG_NAME}",
    "＜": f"＜{_TAG_NAME}",
    "&": rf"&(?i:lt|#0{{0,4}}60|#x0{{0,4}}3c);{_TAG_NAME}",
    "\\": rf"\\(?i:u003c|x3c){_BEFORE_NAME}([\w:\-|｜{INVISIBLE}]++)",
}
# By their first character: a search for one character takes a tenth of the time of one for a set of characters.
_FIND_TAG_NAMES = {first: re.compile(pattern).findall for first, pattern in _TAG_NAMES.items()}


_MAX_NAMES, _MAX_LENGTH = 4_096, 64
"""How many ordinary names are remembered, and how long they may be: some 0.5 MB, and more than a conversation has."""


class MarkerNames:
    """The names of markers: keys of tags and of tokens in square brackets, and how tags begin that have no end.

    A bar begins a token whatever follows it.
    """

    def __init__(self, tags: Iterable[str], brackets: Iterable[str], beginnings: Sequence[str]) -> None:
        self._tags = frozenset(tags)
        self._brackets = frozenset(brackets)
        names = (re.match(_NAME, beginning.lower().lstrip("_")) for beginning in beginnings)
        self._beginnings = tuple({name[0] for name in names if name is not None})
        # Numbers (`x[0]`, the times of a log) are in brackets in all text, and each would be another name to remember.
        no_number = "" if any(key.isdecimal() for key in self._brackets) else r"(?!\d++[\s\]])"
        self._find_brackets = re.compile(rf"\[{_SKIPPED}{no_number}({_NAME})[\s{INVISIBLE}]*+\]").findall
        self._ordinary_tags = OrdinaryNames(self._may_begin_tag)
        self._ordinary_brackets = OrdinaryNames(lambda name: name_key(name) in self._brackets)

    def may_occur_in(self, text: str) -> bool:
        """Return false only if no marker that begins with a bracket occurs in the text, escaped or not."""
        for first, find_names in _FIND_TAG_NAMES.items():
            if first in text and not self._ordinary_tags.contain(find_names(text)):
                return True
        return "[" in text and not self._ordinary_brackets.contain(self._find_brackets(text))

    def _may_begin_tag(self, name: str) -> bool:
        name = name.partition("|")[0]
        if not name or not name.isascii() or name.lower().startswith(self._beginnings):
            return True
        return name_key(name) in self._tags


class OrdinaryNames:
    """Names that are known not to be markers; `may_be_marker` judges a new one."""

    def __init__(self, may_be_marker: Callable[[str], bool]) -> None:
        self._may_be_marker = may_be_marker
        self._known: set[str] = set()

    def contain(self, names: Sequence[str]) -> bool:
        """Return whether all names are ordinary."""
        if self._known.issuperset(names):
            return True
        new = set(names) - self._known
        if any(map(self._may_be_marker, new)):
            return False
        if len(self._known) + len(new) > _MAX_NAMES:
            self._known.clear()
        self._known.update(name for name in itertools.islice(new, _MAX_NAMES) if len(name) <= _MAX_LENGTH)
        return True
