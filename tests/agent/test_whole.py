"""End to end: a real model, through the client, calls a tool of a real MCP server."""

from fcshim import Client
from fcshim.agent import Agent, RoundEnded
from fcshim.demo.serving import serve_model
from fcshim.tools import CallFinished, Executor, Permissions, parse_rules
from tests.agent.model import user_message
from tests.mcp.server_programs import manager, server


async def test_a_model_calls_a_server_s_tool_and_answers():
    """The tiny model was not trained on names with two underscores, so the tool is renamed."""
    async with serve_model("numpy") as model, manager(server()) as servers, Client(model.url) as client:
        tool = servers.find("f:add").with_name("add_numbers")
        permissions = Permissions(rules=parse_rules("allow", ["add_*"]))
        agent = Agent(client.stream, Executor([tool], permissions=permissions))
        events = [event async for event in agent.run([user_message("call add_numbers with a=19, b=23")])]

    (finished,) = [event for event in events if isinstance(event, CallFinished)]

    assert "42" == finished.message.content[0].text
    assert isinstance(events[-1], RoundEnded)
    assert "add_numbers returned 42" == events[-1].answer.strip()
