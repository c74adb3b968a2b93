"""Permission for calls. Requirements 36 and 37."""

import asyncio

import pytest

from fcshim.tools import FunctionTool, PermissionDecision, Permissions, Traits, parse_rules

SAFE = Traits(sensitivity="safe")
EDIT = Traits(sensitivity="edit", subject="path", subject_kind="path")
BASH = Traits(subject="command", subject_kind="command")
MCP = Traits(source="mcp:a")
MCP_READS = Traits(source="mcp:a", reads_only=True)
MCP_ALLOWED = Traits(source="mcp:a", allowed=True)


def tool(traits, name="t"):
    return FunctionTool(lambda: None, name=name, traits=traits)


class ScriptedUser:
    """Answers with a test's decisions, and records the requests."""

    def __init__(self, *answers):
        self._answers = iter(answers)
        self.asked = []

    async def __call__(self, question):
        self.asked.append(question.name)
        await asyncio.sleep(0)
        return next(self._answers)


YES, NO = PermissionDecision(allowed=True), PermissionDecision(allowed=False)


@pytest.mark.parametrize(
    ("mode", "traits", "outcome"),
    [
        ("ask", SAFE, "run"),
        ("ask", EDIT, "ask"),
        ("ask", BASH, "ask"),
        ("ask", MCP, "ask"),
        ("ask", MCP_READS, "ask"),
        ("ask", MCP_ALLOWED, "run"),
        ("accept_edits", SAFE, "run"),
        ("accept_edits", EDIT, "run"),
        ("accept_edits", BASH, "ask"),
        ("accept_edits", MCP, "ask"),
        ("read_only", SAFE, "run"),
        ("read_only", EDIT, "refuse"),
        ("read_only", BASH, "refuse"),
        ("read_only", MCP, "refuse"),
        ("read_only", MCP_ALLOWED, "refuse"),
        ("read_only", MCP_READS, "ask"),
        ("allow", SAFE, "run"),
        ("allow", EDIT, "run"),
        ("allow", BASH, "run"),
        ("allow", MCP, "run"),
    ],
)
async def test_the_table_of_modes(mode, traits, outcome):
    person = ScriptedUser(YES)
    refusal = await Permissions(mode, ask=person).refusal_reason(tool(traits), {})

    assert outcome == ("refuse" if refusal else "ask" if person.asked else "run")


async def test_without_a_user_the_call_is_refused():
    assert "no user to ask" in await Permissions().refusal_reason(tool(MCP), {})


async def test_a_refusal_may_carry_its_reason():
    assert "The user refused." == await Permissions(ask=ScriptedUser(NO)).refusal_reason(tool(MCP), {})
    answer = PermissionDecision(allowed=False, reason="Use the other one.")

    assert "Use the other one." == await Permissions(ask=ScriptedUser(answer)).refusal_reason(tool(MCP), {})


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_decision_can_be_remembered(allowed):
    person = ScriptedUser(PermissionDecision(allowed=allowed, remember=True))
    permissions = Permissions(ask=person)
    answers = [await permissions.refusal_reason(tool(MCP, "a"), {}) for _ in range(3)]

    assert ["a"] == person.asked
    assert {allowed} == {answer is None for answer in answers}


async def test_a_remembered_command_must_match_exactly():
    person = ScriptedUser(PermissionDecision(allowed=True, remember=True), NO)
    permissions = Permissions(ask=person)
    answers = [await permissions.refusal_reason(tool(BASH), {"command": words}) for words in ("ls", "ls", "rm x")]

    assert [None, None, "The user refused."] == answers


async def test_a_remembered_edit_applies_to_all_files():
    person = ScriptedUser(PermissionDecision(allowed=True, remember=True))
    permissions = Permissions(ask=person)

    assert [None, None] == [await permissions.refusal_reason(tool(EDIT), {"path": path}) for path in ("a", "b")]


async def test_the_user_is_asked_one_question_at_a_time():
    person = ScriptedUser(PermissionDecision(allowed=True, remember=True))
    permissions = Permissions(ask=person)
    answers = await asyncio.gather(*(permissions.refusal_reason(tool(MCP), {}) for _ in range(5)))

    assert ["t"] == person.asked
    assert [None] * 5 == answers


async def test_rules_refuse_ask_and_allow():
    rules = [
        *parse_rules("allow", ["Bash(git *)", "mcp__a__*"]),
        *parse_rules("ask", ["Read"]),
        *parse_rules("deny", ["Bash(git push*)", "Write(*.env)"]),
    ]
    permissions = Permissions("allow", rules=rules, ask=ScriptedUser(NO))

    assert await permissions.refusal_reason(tool(BASH, "Bash"), {"command": "git status"}) is None
    assert "A rule of the user forbids Bash" in await permissions.refusal_reason(
        tool(BASH, "Bash"), {"command": "git push"}
    )
    assert "forbids Write" in await permissions.refusal_reason(tool(EDIT, "Write"), {"path": "a/.env"})
    assert "The user refused." == await permissions.refusal_reason(tool(SAFE, "Read"), {})


async def test_an_allow_rule_does_not_override_read_only():
    permissions = Permissions("read_only", rules=parse_rules("allow", ["*"]))

    assert "read-only" in await permissions.refusal_reason(tool(BASH), {})


@pytest.mark.parametrize(
    ("mode", "offered"), [("ask", [True] * 4), ("allow", [True] * 4), ("read_only", [True, False, False, True])]
)
def test_plan_mode_offers_only_tools_that_read(mode, offered):
    """Requirement 36."""
    kinds = (Traits(sensitivity="safe"), Traits(sensitivity="edit"), Traits(), Traits(reads_only=True))
    tools = [FunctionTool(lambda: "x", name="t", traits=traits) for traits in kinds]

    assert offered == [Permissions(mode).offers(tool) for tool in tools]
