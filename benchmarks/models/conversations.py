"""Conversations: one reply after the results of earlier calls, which must be the next call or the answer in text.

Rule: past results are what the tools of the sandbox return.
"""

from pathlib import Path

import msgspec

from benchmarks.models.answer_text import Fact, markup_in, missing_facts
from benchmarks.models.loops import Split
from benchmarks.models.results import CaseVerdict
from benchmarks.models.sandbox import tool_definitions
from fcshim.evaluate.case import Case, CaseLine, expand
from fcshim.evaluate.scoring import judge
from fcshim.reply import Reply


class ConversationLine(CaseLine, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the file of conversations."""

    split: Split
    category: str
    facts: tuple[Fact, ...] = ()


class Conversation(msgspec.Struct, frozen=True):
    """A case with the facts that a reply without calls must state."""

    case: Case
    split: Split
    facts: tuple[Fact, ...]


def load_conversations(split: Split | None = None) -> list[Conversation]:
    """Return the conversations of a split, or all.

    Their categories are `answer`, `second_call`, `correction` (after an error) and `no_call`.
    """
    lines = (Path(__file__).parent / "conversations.jsonl").read_bytes().splitlines()
    found = [_conversation(msgspec.json.decode(line, type=ConversationLine)) for line in lines]
    return [each for each in found if split in (None, each.split)]


def judge_conversation(conversation: Conversation, reply: Reply) -> CaseVerdict:
    """Return the verdict for a reply: that of its calls, then of its facts, then of markup in its text."""
    verdict = judge(conversation.case, reply)
    if verdict != "right":
        return verdict
    if not reply.tool_calls and missing_facts(conversation.facts, reply.text):
        return "missing_fact"
    return "markup" if markup_in([reply.text]) else "right"


def _conversation(line: ConversationLine) -> Conversation:
    tools = tuple(map(tool_definitions().__getitem__, line.tools))
    (case,) = expand(line, line.category, tools, _no_document)
    return Conversation(case, line.split, line.facts)


def _no_document(name: str) -> str:
    raise ValueError(f"no document {name!r}: the results of conversations are short")
