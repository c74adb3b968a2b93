"""Random names, words and values for the synthetic conversations.

Rule: everything is drawn from the `Random` that is passed in, so that a seed gives the same values again.
"""

import json
import string
from random import Random

from fcshim.events import JSON


def _split(text: str) -> list[str]:
    return text.split()


VERBS = _split(
    "get fetch find search read write list send make open close run set add delete update check count play stop show"
)
NOUNS = _split(
    "weather time file user order mail note song map price stock news photo page light door timer event task room city"
)
PARAMETERS = _split(
    "city query path name id count text unit date limit user to lang key value mode size color title host days"
)
COMMON_WORDS = _split(
    "Paris London Tokyo Berlin Rome Oslo Madrid rain snow red blue green apple banana river stone cloud hello world "
    "alpha beta gamma delta north south east west monday friday summer winter cat dog horse bird fish tree house car "
    "train plane"
)
PROSE_WORDS = _split(
    "you are a helpful assistant that can call the functions below to use one write block between tags with json "
    "object name and arguments when no function is needed answer in plain text do not invent values get current for "
    "given this number of list found today result error missing please short friendly"
)
NON_ASCII_LETTERS = "äöüßéèñçøåžłπλжшд北京東日本中文世界한국😀🎉✓€—"

KINDS = ("string", "string", "string", "integer", "integer", "number", "boolean")


def tool_name(rng: Random) -> str:
    """Make a tool name: mostly `verb_noun`, sometimes of made-up syllables or in another style."""
    style = rng.random()
    if style < 0.45:
        return f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"
    if style < 0.6:
        return f"{syllables(rng, 1, 3)}_{rng.choice([*NOUNS, syllables(rng, 2, 2)])}"
    if style < 0.75:
        return rng.choice(VERBS) + rng.choice(NOUNS).capitalize() + rng.choice(["", "", "2", "All"])
    if style < 0.85:
        head = "".join(rng.choices(string.ascii_letters, k=rng.randint(2, 5)))
        return head + rng.choice("_-") + rng.choice(NOUNS + VERBS) + rng.choice(["", "", "2", "_v2"])
    return syllables(rng, 2, 4)


def parameter_name(rng: Random) -> str:
    """Make a parameter name."""
    return rng.choice(PARAMETERS) if rng.random() < 0.6 else syllables(rng, 1, 3)


def value(rng: Random, kind: str) -> JSON:
    """Make a value of a JSON Schema type. A string never looks like a number, a boolean or null."""
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "integer":
        return integer(rng)
    if kind == "number":
        return round(rng.uniform(-100, 1000), rng.randint(1, 2)) if rng.random() < 0.8 else integer(rng)
    return phrase(rng, 2, 3) if rng.random() < 0.25 else word(rng)


def integer(rng: Random) -> int:
    """Make an integer: mostly of one to four digits, rarely negative or longer."""
    magnitude = rng.choice([10, 100, 1000, 10_000, 10_000, 10_000_000])
    return rng.randrange(magnitude) * (-1 if rng.random() < 0.08 else 1)


def phrase(rng: Random, min_words: int, max_words: int) -> str:
    """Make several words, separated by single spaces."""
    return " ".join(word(rng) for _ in range(rng.randint(min_words, max_words)))


def word(rng: Random) -> str:
    """Make a word: a common one, random syllables, or an unusual one such as a date or a path."""
    style = rng.random()
    if style < 0.35:
        return rng.choice(COMMON_WORDS)
    if style < 0.75:
        invented = syllables(rng, 1, 4)
        return invented.capitalize() if rng.random() < 0.3 else invented
    return rng.choice(_UNUSUAL_WORDS)(rng)


def syllables(rng: Random, minimum: int, maximum: int) -> str:
    """Make a pronounceable word."""
    count = rng.randint(minimum, maximum)
    return "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(count))


def prose(rng: Random, max_words: int) -> str:
    """Make a text of common words that resembles a description."""
    return " ".join(rng.choices(PROSE_WORDS, k=rng.randint(1, max_words))).capitalize()


def _letters(rng: Random) -> str:
    return "".join(rng.choices(string.ascii_letters, k=rng.randint(2, 8)))


def _numbered(rng: Random) -> str:
    return syllables(rng, 1, 3) + str(rng.randrange(1000))


def _date(rng: Random) -> str:
    return f"{rng.randint(2000, 2099)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _clock(rng: Random) -> str:
    return f"{rng.randrange(24):02}:{rng.randrange(60):02}"


def _path(rng: Random) -> str:
    return f"{syllables(rng, 1, 3)}/{syllables(rng, 1, 2)}.{rng.choice(['txt', 'md', 'py', 'json', 'csv'])}"


def _mail(rng: Random) -> str:
    return f"{syllables(rng, 1, 3)}@{syllables(rng, 1, 2)}.{rng.choice(['com', 'org', 'net'])}"


def _code(rng: Random) -> str:
    tail = rng.choices(string.ascii_letters + string.digits + "-_./:@#+", k=rng.randint(1, 7))
    return rng.choice(string.ascii_letters) + "".join(tail)


def _non_ascii(rng: Random) -> str:
    stem = syllables(rng, 1, 3)
    cut = rng.randint(0, len(stem))
    return stem[:cut] + "".join(rng.choices(NON_ASCII_LETTERS, k=rng.randint(1, 3))) + stem[cut:]


_UNUSUAL_WORDS = (_letters, _numbered, _date, _clock, _path, _mail, _code, _non_ascii)


def to_json(value: JSON) -> str:
    """Return JSON exactly as the prompt templates write it."""
    return json.dumps(value, ensure_ascii=False)
