"""Notify and slash_command. Requirement 43."""

import pytest

from fcshim.tools.builtin import Control
from tests.tools.builtin.tool_calls import error_text, result_text


async def test_a_notification_is_shown():
    shown = []

    async def notifier(title, body):
        shown.append((title, body))

    tools = Control(notifier=notifier).tools()

    assert ["Notify"] == [tool.definition.name for tool in tools]
    assert "Shown." == await result_text(tools, "Notify", title="Done", body="All of it.")
    assert [("Done", "All of it.")] == shown


async def test_a_missing_desktop_is_an_error(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    assert "no desktop" in await error_text(Control().tools(), "Notify", title="x")


async def test_the_desktops_program_gets_arguments_and_no_options(tmp_path, monkeypatch):
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    await result_text(Control().tools(), "Notify", title="--icon=$(x)", body="b")

    assert "--|--icon=$(x)|b|" == (tmp_path / "said").read_text()


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [("review", "a.py", "Review a.py now."), ("/review", "", "Review  now."), ("plain", "x", "Do it.\nx")],
)
async def test_a_command_gives_its_text(tmp_path, command, args, expected):
    (tmp_path / "review.md").write_text("Review $ARGUMENTS now.")
    (tmp_path / "plain.md").write_text("Do it.")

    assert expected == await result_text(
        Control(commands=tmp_path).tools(), "slash_command", command=command, args=args
    )


@pytest.mark.parametrize("command", ["nothing", "../secret", "", "/"])
async def test_an_unknown_command_is_an_error(tmp_path, command):
    (tmp_path / "review.md").write_text("x")
    (tmp_path.parent / "secret.md").write_text("x")

    assert "There are: review." in await error_text(
        Control(commands=tmp_path).tools(), "slash_command", command=command
    )


async def test_a_command_may_name_its_tools(tmp_path):
    """Requirement 36."""
    (tmp_path / "look.md").write_text("---\ndescription: Look\nallowed-tools: Read, Grep\n---\n\nLook at $ARGUMENTS.\n")
    tools = Control(commands=tmp_path).tools()

    assert "Look at it.\n\n(Use only these tools: Read, Grep)" == await result_text(
        tools, "slash_command", command="look", args="it"
    )
