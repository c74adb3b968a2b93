"""A cut prompt is found by the tokens that a server reports, and one that is whole is never taken for cut."""

import random

import pytest

from benchmarks.prompt_loss import MISSES, Model, Piece, conversation, load, prompt
from fcshim.messages import AssistantMessage, MediaPart, Request, SystemMessage, TextPart, Tool, UserMessage
from fcshim.upstream.character_kinds import KINDS, sizes_of
from fcshim.upstream.prompt_reading import ModelCounts, read_prompt

TOKENIZERS, PIECES = load()
LANGUAGES = ["en", "de", "ru", "zh_cn", "ja", "ar", "hi"]


def kinds_in(text: str) -> dict[str, int]:
    return {name: size for (name, *_), size in zip(KINDS, sizes_of(text), strict=True) if size}


def turns(seed: int, language: str, count: int = 12) -> list[list[Piece]]:
    rng = random.Random(seed)
    system = [rng.choice(PIECES[kind]) for kind in ("en docs", "tools", "json", "tools", "en", "markdown table")]
    return list(conversation(rng, PIECES, language, system, count))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a b c", {"letter": 3}),
        ("a  b\n\n    c\n", {"letter": 3, "gap": 3}),
        ("x = 12.5", {"letter": 1, "digit": 3, "punctuation": 2}),
        ("=" * 80, {"punctuation": 3}),
        ("aB3", {"letter": 2, "digit": 1, "switch": 1}),
        ("über", {"latin": 1, "letter": 3}),
        ("Привет, мир", {"cyrillic": 9, "punctuation": 1}),
        ("नमस्ते", {"devanagari": 6}),
        ("สวัสดี", {"thai": 6}),
        ("ಕನ್ನಡ", {"indic": 5}),
        ("日本カナ한국", {"han": 2, "kana": 2, "hangul": 2}),
        ("שלום سلام", {"hebrew": 4, "arabic": 4}),
        ("→😀", {"symbol": 1, "emoji": 1}),
        ("\ud800", {"punctuation": 1}),
    ],
)
def test_a_text_is_counted_by_kinds(text, found):
    assert found == kinds_in(text)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("number", range(len(TOKENIZERS)), ids=TOKENIZERS)
def test_a_whole_prompt_is_never_taken_for_cut(number, language):
    model, counts = Model(random.Random(number), number), ModelCounts()
    prompts = [each for seed in range(3) for each in turns(seed, language)]

    assert [None] * 36 == [counts.judge(prompt(each), model.count(each)).loss for each in prompts]


@pytest.mark.parametrize("number", range(len(TOKENIZERS)), ids=TOKENIZERS)
def test_a_server_that_leaves_out_what_it_has_cached_has_lost_nothing(number):
    rng = random.Random(number)
    model, counts = Model(rng, number), ModelCounts()
    before: list[Piece] = []
    losses = []
    for messages in [each for seed in range(3) for each in turns(seed, "en")]:
        cached = len(before) if messages[: len(before)] == before and rng.random() > MISSES else 0
        losses.append(counts.judge(prompt(messages), model.count(messages[cached:])).loss)
        before = messages

    assert [None] * 36 == losses


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("number", range(len(TOKENIZERS)), ids=TOKENIZERS)
def test_a_loss_is_found_within_three_requests_and_its_limit_is_kept(number, language):
    model, counts = Model(random.Random(number), number), ModelCounts()
    prompts = turns(7, language, 16)
    context = model.count(prompts[8])
    found = [counts.judge(prompt(each), min(model.count(each), context)).loss for each in prompts[:12]]

    assert [None] * 9 == found[:9]
    assert any(found[9:12])
    assert context == counts.limit


def test_a_loss_of_a_third_is_found_at_once():
    model, counts = Model(random.Random(1), 0), ModelCounts()
    prompts = turns(3, "fr", 30)
    for each in prompts[:8]:
        counts.judge(prompt(each), model.count(each))
    long = next(each for each in prompts if model.count(each) > 1.5 * model.count(prompts[7]))
    loss = counts.judge(prompt(long), model.count(prompts[7])).loss

    assert loss is not None
    assert model.count(long) == pytest.approx(loss.expected, rel=0.25)


def test_an_unknown_server_has_a_limit_once_its_counts_stay_the_same():
    counts = ModelCounts()
    prompts = turns(1, "en", 80)[70:74]

    assert [False, False, True, True] == [counts.judge(prompt(each), 4_096).loss is not None for each in prompts]


def test_the_count_of_the_server_itself_settles_a_doubt():
    counts, messages = ModelCounts(), turns(1, "en", 30)[-1]

    assert counts.settle(prompt(messages), 6_000, 6_001) is None
    assert "the server read only 4,096 of 6,000 tokens of the prompt" == str(
        counts.settle(prompt(messages), 4_096, 6_000)
    )
    assert 4_096 == counts.limit


def test_a_server_with_a_longer_context_has_no_limit_any_more():
    model, counts = Model(random.Random(1), 0), ModelCounts()
    prompts = turns(3, "en", 30)
    for each in prompts[:14]:
        counts.judge(prompt(each), min(model.count(each), model.count(prompts[9])))
    limit = counts.limit
    counts.judge(prompt(prompts[29]), model.count(prompts[29]))

    assert (model.count(prompts[9]), 0) == (limit, counts.limit)


def test_the_budget_fits_into_the_limit():
    model, counts = Model(random.Random(1), 0), ModelCounts()
    prompts = turns(3, "zh_cn", 30)
    context = model.count(prompts[9])
    for each in prompts[:14]:
        counts.judge(prompt(each), min(model.count(each), context))
    characters = sum(each.characters for each in prompts[9])

    assert characters * 0.6 < counts.budget * 4 < characters


def text(said: str) -> tuple[TextPart, ...]:
    return (TextPart(said),)


def read(*messages, tools: tuple[Tool, ...] = ()):
    return read_prompt(Request(model="m", messages=messages, tools=tools))


def test_a_prompt_that_goes_on_shares_the_front_of_the_one_before():
    system, first, second = SystemMessage(text("s" * 9_000)), UserMessage(text("hello")), UserMessage(text("again"))
    before, after = read(system, first), read(system, first, AssistantMessage(text("hi")), second)

    assert len(before.pieces) == after.shared_front(before)


def test_a_front_that_differs_late_is_shared_up_to_there():
    before, after = (read(SystemMessage(text("s" * 9_000 + end))) for end in ("1", "2"))

    assert len(before.pieces) - 1 == after.shared_front(before)


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage(text("Hi"), reasoning="r" * 40_000),
        AssistantMessage(text("<think>" + "r" * 40_000 + "</think>Hi")),
        UserMessage((TextPart("Hi"), MediaPart("image/png", data="AAAA"))),
    ],
    ids=["reasoning", "tags", "image"],
)
def test_what_a_template_may_leave_out_is_no_loss(message):
    counts = ModelCounts()
    system = SystemMessage(text("You write short poems about the sea and its many colours. " * 300))
    verdicts = [counts.judge(read(system, *[message] * turn), 4_000 + 5 * turn) for turn in range(8)]

    assert [None] * 8 == [verdict.loss for verdict in verdicts]


def test_tools_that_a_template_leaves_out_are_no_loss():
    counts = ModelCounts()
    system = SystemMessage(text("You write short poems about the sea and its many colours. " * 300))
    tools = (Tool(name="add", description="x" * 40_000),)

    assert [None] * 8 == [
        counts.judge(read(system, *[UserMessage(text("Hi"))] * turn, tools=tools), 4_000 + 6 * turn).loss
        for turn in range(8)
    ]
