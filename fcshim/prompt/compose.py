"""The whole prompt of one request: its system text, its tools, its conversation, and what had no room.

Rule: what is left out is said, in the prompt where it was and in a note for the log.
Neighbours: `listing`, `budget` and `history` do the work; the shim sends the messages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fcshim.messages import Message, Request, SystemMessage, Tool, ToolChoice, ToolMessage, text_of
from fcshim.parse.dialect import Dialect
from fcshim.prompt.budget import Fitted, Room, fit, shortened_steps
from fcshim.prompt.history import write_history
from fcshim.prompt.listing import Listing, Listings
from fcshim.prompt.neutralise import Neutraliser
from fcshim.prompt.signature import ToolsStyle
from fcshim.prompt.steps import Step, steps_of
from fcshim.prompt.turns import Manners


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages of plain text; `notes` say what was left out."""

    messages: tuple[Message, ...]
    notes: tuple[str, ...]


def compose(
    request: Request,
    tools: Sequence[Tool],
    choice: ToolChoice,
    neutralise: Neutraliser,
    *,
    dialect: Dialect,
    manners: Manners,
    style: ToolsStyle,
    room: Room,
) -> Prompt:
    """Write the request's messages, with `tools` and `choice`, which are neutralised, in the system text."""
    messages = request.messages
    count = next((at for at, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    system, steps = messages[:count], steps_of(messages[count:])
    parallel = request.parallel_tool_calls
    listings = Listings(dialect, tools, steps, choice=choice, parallel=parallel, style=style, max_tools=room.max_tools)
    fitted = fit(steps, listings, room, sum(len(text_of(message.content)) for message in system))
    listing = listings.at(fitted.level)
    written = write_history(
        (*system, *shortened_steps(steps, fitted.short, room.longest_result)),
        neutralise,
        dialect=dialect,
        manners=manners,
        preamble=listing.preamble,
        later=listing.later,
    )
    return Prompt(written, tuple(_notes(steps, fitted, listing, room, len(tools))))


def _notes(steps: Sequence[Step], fitted: Fitted, listing: Listing, room: Room, tools: int) -> Iterator[str]:
    long = sum(
        len(text_of(message.content)) > room.longest_result > 0
        for step in steps
        for message in step.heard
        if isinstance(message, ToolMessage)
    )
    if long:
        are = "1 tool result is" if long == 1 else f"{long} tool results are"
        yield f"{are} longer than {room.longest_result} characters: the middle is left out"
    if fitted.short:
        results = "1 older tool result" if len(fitted.short) == 1 else f"{len(fitted.short)} older tool results"
        yield f"the prompt's budget has no room for {results}: the middle is left out"
    if fitted.level:
        yield f"the prompt's budget has room for {tools - listing.named} of {tools} tools, by signature"
    if fitted.tokens > room.prompt_budget:
        yield f"the prompt takes about {fitted.tokens} tokens, more than its budget of {room.prompt_budget}"
