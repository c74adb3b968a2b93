"""Regular expressions are read correctly or rejected."""

import re

import pytest

from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.regex import ANYTHING, UnsupportedRegexError, read_regex
from tests.constrain.matcher import admits
from tests.constrain.sampler import sample

READ = [
    *(
        r"^a{2,3}b?$",
        r"^[^\d\s]$",
        r"^(?:a|bc)+$",
        r"^(?<year>\d{4})$",
        r"^(?P<year>\d{4})$",
        r"^a*?$",
        r"^\x41\u00e9$",
    ),
    *(r"^(a+)+$", r"^.*a.*b$", r"^a$|^b", r"ab", r"^[\w-]$", r"^\t\n$", r"^[a-]$", r"^[$^.]$"),
]


@pytest.mark.parametrize("text", READ)
def test_sampled_texts_match(text: str) -> None:
    found = read_regex(text)
    words = [sample(Grammar({ROOT: found}), seed) for seed in range(40)]

    assert all(re.search(text.replace("(?<", "(?P<"), word) for word in words)


@pytest.mark.parametrize(
    "text",
    [
        *(r"^(?=a)$", r"^(?!a)$", r"\bx", r"(a)\1", r"\p{L}", r"[a", r"(a", r"a)", r"*a", r"a{2,1}", r"a{3000}", "\\"),
        *(r"[b-a]", r"[a-\d]", r"[^\s\S]", r"^\ud83d$", r"^\ud83d\ude00$", r"^[\ud800-\udbff]$", "(" * 30 + ")" * 30),
    ],
)
def test_unsupported_expressions_are_rejected(text: str) -> None:
    with pytest.raises(UnsupportedRegexError):
        read_regex(text)


def test_without_anchors_any_text_may_surround_a_match() -> None:
    found = Grammar({ROOT: read_regex("b")})

    assert [True, True, True, False] == [admits(found, text) for text in ("b", "ab", "abc", "ac")]
    assert read_regex("^.*$") in ANYTHING
