"""The user's slash commands, skills, functions and kinds of agents in a chat. Requirements 33, 36 and 43."""

import pytest

from tests.chat.test_terminal import PROMPT, chatting
from tests.server.mcp_proxy import call_text, prompts, stdio_server

REVIEW = "---\ndescription: look at a file\nallowed-tools: Read, Bash(ls:*)\n---\nReview $ARGUMENTS now."


@pytest.fixture
def folders(tmp_path):
    """Folders of each kind, and the options that name them."""
    texts = {
        "commands/review.md": REVIEW,
        "skills/s/SKILL.md": "---\nname: sewing\ndescription: how to sew\n---\nTake a needle.",
        "custom/mine.py": 'def get_time() -> str:\n    """Time."""\n    return "12:00"\n',
        "profiles/tester.md": "---\ntools: Read\nmodel: small\n---\nYou test.",
        "root/a.txt": "hello",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kinds = ("commands", "skills", "custom", "profiles", "root")
    return [word for kind in kinds for word in (f"--{kind}", str(tmp_path / kind))]


async def test_a_command_s_allowed_tools_are_enforced(folders, tmp_path):
    calls = "\n".join((call_text("Read", path="a.txt"), call_text("Bash", command="ls; touch x")))
    replies = (calls, "Fine.", call_text("get_time"), "Later.")
    async with chatting(tmp_path, *replies, options=[*folders, "--mode", "allow"]) as (screen, upstream):
        screen.enter("/help")
        listed = await screen.expect("ends the turn")
        screen.enter("/review a.txt")
        await screen.expect("Fine.")
        screen.enter("And the time?")
        await screen.expect("Later.")
    first, second, _, fourth = prompts(upstream)

    assert "/review look at a file" in listed
    assert "user: Review a.txt now." in first
    assert "get_time" not in first
    assert "hello" in second
    assert "The command that the user gave allows other tools only." in second
    assert "12:00" in fourth  # the restriction ends with the turn


async def test_the_model_s_own_use_of_a_command_is_restricted_too(folders, tmp_path):
    replies = (call_text("slash_command", command="review", args="a.txt"), call_text("Bash", command="touch x"), "No.")
    async with chatting(tmp_path, *replies, options=[*folders, "--mode", "allow"]) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("No.")

    assert "allows other tools only" in prompts(upstream)[2]
    assert not (tmp_path / "root" / "x").exists()


async def test_skills_functions_and_kinds_of_agents_are_there(folders, tmp_path):
    task = call_text("spawn_agent", prompt="Try it.", agent="tester")
    unknown = call_text("SessionsSpawn", prompt="Try more.", agentId="painter")
    calls = "\n".join((call_text("read_skill", name="sewing"), call_text("get_time")))
    replies = (calls, task, "It works.", unknown, "Done.")
    async with chatting(tmp_path, *replies, options=[*folders, "--mode", "allow"]) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("Done.")

    assert "Take a needle." in prompts(upstream)[1]
    assert "12:00" in prompts(upstream)[1]
    assert "You test." in prompts(upstream)[2].splitlines()[0]
    assert "small" == upstream.requests[2].body["model"]
    assert "There is no agent painter. There are: tester." in prompts(upstream)[4]


async def test_plan_mode_offers_tools_that_read_only(folders, tmp_path):
    """Requirement 36."""
    async with chatting(tmp_path, "A plan.", "Acts.", options=folders) as (screen, upstream):
        screen.enter("/plan")
        await screen.expect("plan ›")
        screen.enter("Go")
        await screen.expect("A plan.")
        screen.enter("/plan")
        await screen.expect("\n›")
        screen.enter("Go")
        await screen.expect("Acts.")
    planning, acting = (text.partition("user: Go")[0] for text in prompts(upstream))

    assert "function Read(" in planning
    assert "function Bash(" not in planning
    assert "function Write(" not in planning
    assert "function Bash(" in acting


async def test_prompts_of_servers_are_commands(tmp_path):
    servers = {"l": stdio_server("library")}
    async with chatting(tmp_path, "Reviewed.", servers=servers) as (screen, upstream):
        screen.enter("/l:review")
        await screen.expect("/l:review needs path")
        screen.enter("/l:review a.py very thorough")
        await screen.expect("Reviewed.")
        await screen.expect(PROMPT)

    assert "user: Review a.py, very thorough." in prompts(upstream)[0]
