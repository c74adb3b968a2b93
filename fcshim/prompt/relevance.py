"""Which tools have to do with what somebody said: BM25 over their names, descriptions and parameters.

Rule: the same words and tools always give the same scores; what is read of a tool or a text is bounded.
Neighbours: `offer` asks here which tools to describe.

BM25 as Robertson and Zaragoza give it (The Probabilistic Relevance Framework, 2009), with its usual constants.
"""

import functools
import itertools
import math
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fcshim.events import JSON
from fcshim.messages import Tool

K1, B = 1.2, 0.75

_NAME_WEIGHT = 3
"""A word of the name counts as often: it says what a tool is for, where a description also says what it is not for."""
_MAX_TEXT = 2_000
"""Characters that are read of a name, a description, and all parameters: what a tool is for stands at the beginning."""
_MAX_SCHEMA_PARTS = 200
"""Parts of a schema that are looked at for names, descriptions and the values of an enumeration."""

_STOP_WORDS = frozenset(
    [
        *("a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by"),
        *("can", "could", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into"),
        *("is", "it", "its", "let", "may", "me", "my", "no", "not", "now", "of", "on", "only", "or", "our"),
        *("out", "please", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then"),
        *("there", "these", "they", "thi", "this", "to", "u", "up", "was", "we", "were", "what", "when"),
        *("where", "which", "who", "why", "will", "with", "would", "you", "your"),
    ]
)
"""English words that ask for no tool. In a hundred tools they would weigh little anyhow, in five they would not."""

_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
"""Scripts that are written without spaces: two characters there are what a word is elsewhere."""


def words_of(text: str) -> list[str]:
    """Give the words of a text, in no case; the parts of `snake_case`, `kebab-case` and `camelCase` are words."""
    return [word for run in _RUN.findall(unicodedata.normalize("NFKC", text)) for word in _words(run)]


def _words(run: str) -> Iterator[str]:
    at = 0
    for unspaced in _UNSPACED.finditer(run):
        yield from _case_parts(run[at : unspaced.start()])
        yield from _bigrams(unspaced[0])
        at = unspaced.end()
    yield from _case_parts(run[at:])


def _bigrams(text: str) -> Iterator[str]:
    yield from (text[at : at + 2] for at in range(max(len(text) - 1, 1)))


def _case_parts(run: str) -> Iterator[str]:
    """Give a word, and its parts where capitals show them: `readURLs` is `readurl`, `read` and `url`."""
    if not run:
        return
    yield _singular(run.casefold())
    if run.islower() or run.isupper() or run.istitle():
        return
    start = 0
    for at in range(1, len(run)):
        if run[at].isupper() and (run[at - 1].islower() or run[at + 1 : at + 2].islower()):
            if at > start:
                yield _singular(run[start:at].casefold())
            start = at
    if start:
        yield _singular(run[start:].casefold())


def _singular(word: str) -> str:
    """Take off an English plural's ending, on both sides alike."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True, slots=True)
class _ToolDocument:
    """A tool as its words: how often each comes, how many there are, and which stand in the name."""

    counts: Counter[str]
    length: int
    name: frozenset[str]


class Relevance:
    """Scores tools by texts."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._documents = [_document(tool) for tool in tools]
        self._mean = sum(document.length for document in self._documents) / max(len(tools), 1)
        self._postings: dict[str, list[int]] = {}
        for at, document in enumerate(self._documents):
            for word in document.counts:
                self._postings.setdefault(word, []).append(at)

    def scores(self, words: Sequence[str]) -> list[float]:
        """Give each tool's score, in order; 0 where it has none of the words."""
        scores = [0.0] * len(self._documents)
        for word in dict.fromkeys(words):
            if word in _STOP_WORDS:
                continue
            places = self._postings.get(word, ())
            weight = math.log(1 + (len(self._documents) - len(places) + 0.5) / (len(places) + 0.5))
            for at in places:
                scores[at] += weight * self._term_score(word, self._documents[at])
        return scores

    def matches_name(self, at: int, words: Sequence[str]) -> bool:
        """Tell whether one of the words stands in the tool's name."""
        return any(word in self._documents[at].name for word in words if word not in _STOP_WORDS)

    def _term_score(self, word: str, document: _ToolDocument) -> float:
        count = document.counts[word]
        return count * (K1 + 1) / (count + K1 * (1 - B + B * document.length / self._mean))


def _document(tool: Tool) -> _ToolDocument:
    parameters = " ".join(itertools.islice(_schema_texts(tool.parameters), _MAX_SCHEMA_PARTS))
    return _indexed(tool.name[:_MAX_TEXT], tool.description[:_MAX_TEXT], parameters[:_MAX_TEXT])


def _schema_texts(schema: JSON) -> Iterator[str]:
    """Give what a schema says in words, its outer parts first; an empty text for a part that says nothing."""
    parts = deque([schema])
    while parts:
        part = parts.popleft()
        if not isinstance(part, dict):
            yield ""
            continue
        properties, items, values = part.get("properties"), part.get("items"), part.get("enum")
        if isinstance(properties, dict):
            yield from (name[:_MAX_TEXT] for name in properties)
            parts.extend(itertools.islice(properties.values(), _MAX_SCHEMA_PARTS))
        if isinstance(values, list):
            yield from (value[:_MAX_TEXT] for value in values if isinstance(value, str))
        description = part.get("description")
        yield description[:_MAX_TEXT] if isinstance(description, str) and part is not schema else ""
        parts.append(items)


@functools.lru_cache(maxsize=1_024)  # the same tools come with every request; a thousand take some 20 MB at the most
def _indexed(name: str, description: str, parameters: str) -> _ToolDocument:
    named = words_of(name)
    words = [*named * _NAME_WEIGHT, *words_of(description), *words_of(parameters)]
    return _ToolDocument(Counter(words), len(words), frozenset(named))
