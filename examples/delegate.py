"""An agent that delegates: it gives a task to a sub-agent, which has tools of its own and a fresh conversation.

    python examples/delegate.py [--url http://127.0.0.1:8080] [QUESTION]

The sub-agent sees nothing of the main agent's conversation, and what it reads stays with it: the main agent gets its
answer alone.
"""

import argparse
import asyncio

from fcshim import Client, FunctionTool
from fcshim.agent import Agent, RoundEnded
from fcshim.messages import text_of
from fcshim.tools import CallFinished, CallStarted

QUESTION = "Who wrote Emma, and who wrote Dracula? Ask the librarian about each book."
INSTRUCTIONS = "You answer questions. You know no books: ask the librarian."
LIBRARIAN = "You are a librarian. You look books up and answer in one sentence."
BOOKS = {"Emma": "Jane Austen, 1815", "Dracula": "Bram Stoker, 1897", "Middlemarch": "George Eliot, 1871"}


def look_up(title: str) -> str:
    """Look a book up: who wrote it, and when."""
    return BOOKS.get(title, f"there is no book {title}; there are {', '.join(BOOKS)}")


def librarian(client: Client) -> FunctionTool:
    """Make the tool with which the main agent asks a sub-agent."""

    async def ask_librarian(title: str) -> str:
        """Ask the librarian about one book, by its title."""
        sub_agent = Agent(client.stream, [look_up], instructions=LIBRARIAN, max_rounds=4)
        ended = await sub_agent.answer(f"call look_up with title={title}")
        return ended.answer or "The librarian has no answer."

    return FunctionTool(ask_librarian)


async def main() -> None:
    """Ask, and print what is delegated, what comes back, and the answer."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("question", nargs="?", default=QUESTION)
    options.add_argument("--url", default="http://127.0.0.1:8080")
    given = options.parse_args()
    async with Client(given.url) as client:
        agent = Agent(client.stream, [librarian(client)], instructions=INSTRUCTIONS)
        async for event in agent.run(given.question):
            match event:
                case CallStarted(call=call):
                    print(f"asked: {call.tool_call_arguments_complete}")
                case CallFinished(message=message):
                    print(f"told: {text_of(message.content)}")
                case RoundEnded(answer=str(answer)):
                    print(answer)


asyncio.run(main())
