import json
import re
from random import Random

import pytest

from fcshim.demo import random_values


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_a_seed_gives_the_same_values() -> None:
    def draw() -> list[object]:
        rng = Random(5)
        return [random_values.value(rng, kind) for kind in random_values.KINDS * 20]

    assert draw() == draw()


def test_tool_names_are_valid_for_every_provider() -> None:
    rng = Random(1)
    names = [random_values.tool_name(rng) for _ in range(2000)]

    assert [name for name in names if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name)] == []


def test_a_word_never_looks_like_another_type() -> None:
    rng = Random(2)
    strings = [random_values.word(rng) for _ in range(5000)]

    assert [text for text in strings if not text or " " in text or is_json(text)] == []


@pytest.mark.parametrize(
    ("kind", "types"), [("string", str), ("integer", int), ("number", (int, float)), ("boolean", bool)]
)
def test_values_have_the_requested_type(kind: str, types: type) -> None:
    rng = Random(3)

    assert all(isinstance(random_values.value(rng, kind), types) for _ in range(500))


def test_words_have_many_shapes() -> None:
    rng = Random(4)
    drawn = " ".join(random_values.word(rng) for _ in range(2000))
    shapes = [r"\d{4}-\d\d-\d\d", r"\d\d:\d\d", r"\w+/\w+\.\w+", r"\w+@\w+\.\w+", r"[a-z]\d+", r"[^\x00-\x7f]"]

    assert [shape for shape in shapes if not re.search(shape, drawn)] == []
