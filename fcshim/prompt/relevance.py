"""Scores the relevance of tools to a text: BM25 over their names, categories, descriptions and parameters.

Rule: the same words and tools always give the same scores; the text read of a tool is bounded.

BM25 as in Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with its usual constants.
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
"""Weight of a word in the name: the name says what a tool is for, a description may also say what it is not for."""
_MAX_TEXT = 2_000
"""Characters read of a name, a description, and all parameters: the purpose of a tool comes first."""
_MAX_SCHEMA_PARTS = 200
"""Parts of a schema that are read for names, descriptions and enumeration values."""

_STOP_WORDS = frozenset([
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into",
    "is", "it", "its", "let", "may", "me", "my", "no", "not", "now", "of", "on", "only", "or", "our",
    "out", "please", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "thi", "this", "to", "u", "up", "was", "we", "were", "what", "when",
    "where", "which", "who", "why", "will", "with", "would", "you", "your",
])  # fmt: skip
"""English words that identify no tool. BM25 gives them little weight among a hundred tools, but not among five."""

_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
"""Scripts written without spaces: each pair of adjacent characters counts as a word."""


def words_of(text: str) -> list[str]:
    """Return the case-folded words of a text; the parts of `snake_case`, `kebab-case` and `camelCase` are words too."""
    return [word for run in _RUN.findall(unicodedata.normalize("NFKC", text)) for word in _words(run)]


def _words(run: str) -> Iterator[str]:
    at = 0
    for unspaced in _UNSPACED.finditer(run):
        yield from _case_parts(run[at : unspaced.start()])
        text = unspaced[0]
        yield from (text[first : first + 2] for first in range(max(len(text) - 1, 1)))
        at = unspaced.end()
    yield from _case_parts(run[at:])


def _case_parts(run: str) -> Iterator[str]:
    """Yield a word, and its camel-case parts: `readURLs` is `readurl`, `read` and `url`."""
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
    """Remove the ending of an English plural, in tools and in the text alike."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True, slots=True)
class _ToolDocument:
    """The words of a tool: their counts, their total number, and those of the name."""

    counts: Counter[str]
    length: int
    name: frozenset[str]


class Relevance:
    """An inverted index of the tools, which scores them against a text."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._documents = [_document(tool) for tool in tools]
        self._mean = sum(document.length for document in self._documents) / max(len(tools), 1)
        self._postings: dict[str, list[int]] = {}
        for at, document in enumerate(self._documents):
            for word in document.counts:
                self._postings.setdefault(word, []).append(at)

    def scores(self, words: Sequence[str]) -> list[float]:
        """Return the score of each tool, in order; 0 without a common word."""
        scores = [0.0] * len(self._documents)
        for word in dict.fromkeys(words):
            if word in _STOP_WORDS:
                continue
            postings = self._postings.get(word, ())
            weight = math.log(1 + (len(self._documents) - len(postings) + 0.5) / (len(postings) + 0.5))
            for at in postings:
                document = self._documents[at]
                count = document.counts[word]
                frequency = count * (K1 + 1) / (count + K1 * (1 - B + B * document.length / self._mean))
                scores[at] += weight * frequency
        return scores

    def matches_name(self, at: int, words: Sequence[str]) -> bool:
        """Return whether one of the words is in the tool's name."""
        return any(word in self._documents[at].name for word in words if word not in _STOP_WORDS)


def _document(tool: Tool) -> _ToolDocument:
    parameters = " ".join(itertools.islice(_schema_texts(tool.parameters), _MAX_SCHEMA_PARTS))
    about = f"{tool.category} {tool.description[:_MAX_TEXT]}"
    return _indexed(tool.name[:_MAX_TEXT], about, parameters[:_MAX_TEXT])


def _schema_texts(schema: JSON) -> Iterator[str]:
    """Yield the texts of a schema, outer parts first; an empty text for a part without one, so that it counts too."""
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
