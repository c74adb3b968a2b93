"""GBNF within llama.cpp's limit: it unrolls nested repetitions, and allows 2,000."""

from fcshim.constrain.grammar import ROOT, Expression, Grammar, LiteralText, Repeat, RuleRef, chars, series
from fcshim.constrain.writer import write_gbnf


def written(root: Expression, **rules: Expression) -> dict[str, str]:
    lines = write_gbnf(Grammar({**rules, ROOT: root})).splitlines()
    return {name: text for name, _, text in (line.partition(" ::= ") for line in lines)}


def test_a_repeated_group_is_a_rule() -> None:
    path = Repeat(series(LiteralText("/"), Repeat(chars("az"), 1, 60)), 1, 60)

    found = written(series(path, LiteralText("."), path))

    assert {"root": 'group0 group0{0,59} "." group0 group0{0,59}', "group0": '"/" [a-z] [a-z]{0,59}'} == found


def test_an_optional_group_with_a_repetition_is_a_rule() -> None:
    plain, long = series(LiteralText("a"), RuleRef("b")), series(LiteralText("a"), Repeat(RuleRef("b"), 0, 40))

    assert '("a" b)?' == written(Repeat(plain, 0, 1), b=LiteralText("b"))["root"]
    assert "group0?" == written(Repeat(long, 0, 1), b=LiteralText("b"))["root"]


def test_a_long_repetition_is_split_into_blocks() -> None:
    found = written(Repeat(LiteralText("a"), 300, 300))

    assert {"root": 'block0{4} "a"{44}', "block0": '"a"{64}'} == found
