"""The fixtures of CanIToolCall for the parsers of model servers, and tokenizers without a model.

Rule: a parser of tool calls reads text, so a tokenizer of bytes takes the place of the model's own; its chat template
ends as the prompt of the fixture does.
"""

import functools
import json
import random
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import xgrammar
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fcshim.testing.splits import splits
from tests.conformance.test_other_suites import CASES, DIFFERENCES, PROMPT_ENDS, REASONING_TAGS

Fixture = dict[str, Any]
Read = Callable[[Fixture, Sequence[str] | None], tuple[list[dict[str, Any]], str]]
"""Reads the reply of a fixture, whole (None) or in pieces; returns the calls that a client runs, and the content."""

_TOKEN = re.compile(r"<[^<>\n]{1,40}>|\[[A-Z_/]{2,40}\]|[ ]?\w{1,6}|\s+|[^\w\s]{1,3}")
HERMES = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}<|im_start|>assistant
"""
"""A chat template that writes calls as Qwen's does."""


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
OTHER = {"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
EXPECTED = {"name": "get_weather", "arguments": {"city": "Paris"}}


@functools.cache
def tokenizer(
    name: str = "model", chat_template: str = HERMES, markers: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """Make a tokenizer of bytes with a name, a chat template, and markers that are one token each."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, chat_template=chat_template)
    fast.name_or_path = name
    fast.add_tokens([AddedToken(marker, special=True) for marker in markers])
    return fast


def tokenizer_of(fixture: Fixture) -> PreTrainedTokenizerFast:
    """Make the tokenizer of a fixture's model."""
    return tokenizer(fixture["models"][0], "{{ " + json.dumps(_prompt_end(fixture) or "assistant\n") + " }}")


def _prompt_end(fixture: Fixture) -> str:
    end: str = fixture.get("generation_prompt") or PROMPT_ENDS.get(fixture["models"][0], "")
    return end


def failures(read: Read) -> Iterator[str]:
    """Yield the names of the fixtures that are not read as the suite expects."""
    for name, fixture in CASES.items():
        if not _is_expected(fixture, *read(fixture, None)) or not _is_expected(
            fixture, *read(fixture, tokens(fixture))
        ):
            yield name


def check_fixtures(read: Read, otherwise: Collection[str]) -> None:
    """Check that only the fixtures that differ everywhere and those in `otherwise` are read otherwise, at most 13."""
    assert 469 == len(CASES)
    assert set(failures(read)) <= {*DIFFERENCES, *otherwise}
    assert len({*DIFFERENCES, *otherwise}) <= 13


def differing(read: Read) -> Iterator[str]:
    """Yield the names of the fixtures whose calls depend on how the reply is split."""
    for name, fixture in CASES.items():
        calls = read(fixture, tokens(fixture))[0]
        for pieces in splits(fixture["raw_output"], random.Random(name), count=1):
            if read(fixture, pieces)[0] != calls:
                yield name
                break


def tokens(fixture: Fixture) -> list[str]:
    """Split a reply about as a tokenizer does: markers whole, words with the blank before them, signs."""
    found = _TOKEN.findall(fixture["raw_output"])
    assert "".join(found) == fixture["raw_output"]
    return found


def _is_expected(fixture: Fixture, calls: list[dict[str, Any]], content: str) -> bool:
    """Compare as the suite does, which ignores white space around text; a damaged fixture expects no call."""
    reasons = content.startswith("<think>") or open_tag(fixture) != ""
    reasoning, _, text = content.removeprefix("<think>").partition("</think>") if reasons else ("", "", content)
    if "expected" not in fixture:
        return not calls
    expected = fixture["expected"]
    wanted = [(expected[part] or "").strip() for part in ("content", "reasoning_content")]
    return calls == expected["tool_calls"] and wanted == [text.strip(), reasoning.strip()]


def open_tag(fixture: Fixture) -> str:
    """Return the reasoning tag with which the prompt of a fixture ends, if it does."""
    return next((tag for tag in REASONING_TAGS if _prompt_end(fixture).rstrip().endswith(tag)), "")


def loads(text: str) -> Any:
    """Return a JSON value; None if the text is none."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None


def grammar_matcher(tag: Any) -> Callable[[str], bool]:
    """Return a function that says whether a structural tag admits a whole reply, by the servers' grammar backend."""
    info = xgrammar.TokenizerInfo(["</s>", *map(chr, range(1, 128))], stop_token_ids=[0])
    grammar = xgrammar.GrammarCompiler(info).compile_structural_tag(tag)

    def admits(text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(grammar)
        return matcher.accept_string(text) and matcher.accept_token(0)

    return admits


def count_lines(run: Callable[[], object]) -> int:
    """Count the lines of Python that a function runs."""
    count = 0

    def trace(*_: object) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return count
