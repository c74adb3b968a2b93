"""Which conversation a request belongs to, what its user said last, and which results came since.

Rule: clients send no id of a conversation, so it is told by its messages: a request that has the messages of an earlier
one, and more, goes on with that one. System prompts do not count, since agents change them from turn to turn.
"""

import itertools
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from fcshim.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolMessage, UserMessage, text_of

MAX_WORDS = 200
"""Characters of the user's last words in a line of the list."""
_MAX_KNOWN = 10_000
"""Requests whose messages are known by a hash: twice those that the list shows."""
_MAX_RESULTS = 5
_AGENT_ELEMENT = re.compile(r"env|[a-z]+(?:[_-][a-z]+){1,5}")
"""Names of elements that agents add; `<system-reminder>`, but no element of HTML, which a user may ask about."""


class Conversations:
    """Numbers the conversations of requests, from 1."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, int] = OrderedDict()
        """The number of a conversation by the hash of the messages of each of its requests."""
        self._numbers = itertools.count(1)

    def number_of(self, messages: Sequence[Message]) -> int:
        """Return the number of the conversation that a request with these messages goes on with, or of a new one.

        A request without a reply in its messages begins one: two users may begin with the same words.
        """
        hashes = list(_running_hashes(messages))
        number = 0
        if any(isinstance(message, AssistantMessage) for message in messages):
            number = next((self._known[each] for each in reversed(hashes) if each in self._known), 0)
        number = number or next(self._numbers)
        if hashes:
            self._known[hashes[-1]] = number
            self._known.move_to_end(hashes[-1])
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return number


def _running_hashes(messages: Sequence[Message]) -> Iterator[int]:
    """Yield a hash of the messages up to each user message and each result; replies may come back in another form."""
    found = 0
    for message in messages:
        if not isinstance(message, SystemMessage | AssistantMessage):
            found = hash((found, type(message).__name__, text_of(message.content)))
            yield found


def last_words(messages: Sequence[Message]) -> str:
    """Return the beginning of what the user said last, without what agents add to it in elements of their own."""
    users = [message for message in messages if isinstance(message, UserMessage)]
    for message in reversed(users):
        parts = [part.text for part in message.content if isinstance(part, TextPart) and not part.document]
        words = next(filter(None, map(_without_elements, reversed(parts))), "")
        if words:
            return words[:MAX_WORDS]
    return text_of(users[-1].content).strip()[:MAX_WORDS] if users else ""


def _without_elements(text: str) -> str:
    """Return a text without what an agent put before it in an element (`<system-reminder>...</system-reminder>`)."""
    text = text.strip()
    name = text[1:].partition(">")[0]
    if not text.startswith("<") or not _AGENT_ELEMENT.fullmatch(name):
        return text
    _, end, after = text.rpartition(f"</{name}>")
    return after.strip() if end else text


def last_results(messages: Sequence[Message]) -> list[str]:
    """Return the tools whose results end the messages, in their order; empty if the user has spoken since."""
    names = {
        call.id: call.name
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    results = itertools.takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    found = [each.name or names.get(each.tool_call_id, "") for each in results if isinstance(each, ToolMessage)]
    return list(filter(None, reversed(found)))[-_MAX_RESULTS:]
