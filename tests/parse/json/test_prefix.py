"""The prefix of a JSON body."""

import pytest

from fcshim.parse.json.prefix import fence_end, intro_line_end, json_begins

KEYS = frozenset({"name", "arguments"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", True),
        (" \n[", True),
        ("```json\n{", True),
        ("```{", True),
        ('\nHere it is:\n{"', True),
        ("", None),
        (" \n", None),
        ("``", None),
        ("```json\n", None),
        ("\nHere it", None),
        ("\nHere it is:\n", None),
        ('Here it is:\n{"', False),
        ("\nHere it is:\nno", False),
        ("\n" + "word " * 30, False),
        ("<parameter", False),
        ("```python\nx", False),
    ],
)
def test_json_begins_bare_in_a_fence_or_after_an_introductory_line(text: str, expected: bool | None) -> None:
    assert expected is json_begins(text, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name":', True),
        ("{'name' :", True),
        ("{name:", True),
        ('[\n {"arguments":', True),
        ('{"name"', None),
        ("[", None),
        ("{", None),
        ('{"city":', False),
        ("{\"name':", False),
        ("[1", False),
        ("{}", False),
        ("[]", False),
        ("[[", False),
    ],
)
def test_with_keys_only_an_object_that_begins_with_one_of_them_counts(text: str, expected: bool | None) -> None:
    assert expected is json_begins(text, 0, KEYS)


def test_an_answer_does_not_change_with_more_text() -> None:
    whole = '\n```json\n [ {"name": "f"}]\n'
    for keys in (frozenset(), KEYS):
        known = [json_begins(whole[:end], 0, keys) for end in range(len(whole) + 1)]

        assert [None] * known.count(None) + [True] * known.count(True) == known


def test_the_ends_of_prefixes() -> None:
    assert (8, 0, None) == (fence_end("```json\n{", 0), fence_end("```json\nx", 0), fence_end("```js", 0))
    assert (6, 0, None) == (intro_line_end('Well:\n{"', 0), intro_line_end("Well: {", 0), intro_line_end("Well", 0))
