"""How the server reads the prompts of a model: whether it has lost a part of one, and what it must read again.

Theory of operation. A loss is found by the token count of a reply. The text of a prompt is counted by kinds of
characters (`KINDS`). A tokenizer takes some number of tokens for one of each kind, within the bounds of the table.
Which number is not known, but every earlier request of the same model says what their sum was. A new prompt shares most
of its messages with an earlier one, and these take the same tokens again. So the least that it takes is the smallest
sum over all numbers that agree with an earlier request (`_minimise`): a linear program with one equation, solved by
filling the cheapest kinds first. If the server reports fewer, it has cut the prompt.

Some servers report only the tokens that they did not find in their prefix cache. So a count that the new messages alone
could take is no loss, until the server was seen to count everything: several times in a row, for a prompt that
continues the one before.

Text at the front of a prompt that varies between requests makes the server read all that follows again. Only the system
text is looked at for that, since the conversation after it is another one in each session.

Rule: no I/O. No text is kept: messages and lines are known by their hashes; a line that varies is taken from the prompt
at hand.
"""

import math
import operator
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from fcshim.messages import AssistantMessage, Message, Request, count_leading_system, has_media_part, text_of
from fcshim.prompt.compose import CHARACTERS_PER_TOKEN
from fcshim.upstream.character_kinds import KINDS, MESSAGE, OPTIONAL, PROMPT, Sizes, sizes_of

_LOWER = tuple(lower for _, lower, _ in KINDS)
_UPPER = tuple(upper for _, _, upper in KINDS)
_MIDDLE = tuple((lower * upper) ** 0.5 for _, lower, upper in KINDS)
_NOTHING = (0,) * len(KINDS)
_MEDIA = 4_096
"""Units of `optional` for one image or file, which take some hundred to some thousand tokens."""
_NOISE = 0.35
"""How much fewer or more tokens a text takes than the average of its kinds, as a part of them."""
_SEAM = 2
"""Tokens by which a message's count depends on what stands beside it."""

_PIECE = 4_096
"""Characters of a piece: a prefix cache may hold the front of a message whose end differs."""
_MAX_REQUESTS = 8
"""Requests of a model that are compared: the conversations that a server works on at the same time."""
_CONFIRMATIONS = 2
"""Times in a row that a server counts what it must have in its cache, until it is known to count everything."""
_MIN_CACHED = 1_024
"""Tokens that prefix caches hold: some leave out shorter prompts."""
_MIN_CONTEXT = 2_048
"""Tokens of the shortest context with which models are run."""
_MIN_READ = 512
"""Tokens that a server reads at least of a prompt that it cuts; some report a constant instead."""
_PLATEAU = 3
"""Counts in a row that stay about the same while the prompt grows: they are the size of the server's context."""
_SPREAD = 0.1
"""How far they may differ: some servers cut whole messages."""
_DOUBT = 0.9
"""The part of the expected tokens below which a count is in doubt."""
_ABOVE = 1.02
"""How far above a known limit a prompt is expected of which the limit was read."""
_ROOM = 0.9
"""The part of a limit that prompts are fitted to, since their size is only estimated."""


class SentPrompt(NamedTuple):
    """A prompt in pieces: the hash and the sizes of each."""

    pieces: tuple[tuple[int, Sizes], ...]
    unstable: Sizes
    """What no other prompt shares: reasoning, which a template leaves out once the user has spoken again."""
    characters: int

    @property
    def total(self) -> Sizes:
        """The sizes of the whole prompt."""
        return _total([*self.pieces, (0, self.unstable)])

    def shared_front(self, other: "SentPrompt") -> int:
        """Return how many pieces both prompts begin with."""
        return _shared_front(self.pieces, other.pieces)


def _shared_front(first: Sequence[object], second: Sequence[object]) -> int:
    """Return how many items both begin with."""
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return at
    return min(len(first), len(second))


def read_prompt(request: Request) -> SentPrompt:
    """Return the pieces of a request as the upstream gets it."""
    pieces = [(0, _ONE_PROMPT)]
    unstable, characters = [0] * len(KINDS), 0
    if request.tools:
        text = msgspec.json.encode(request.tools).decode()
        pieces.append((hash(text), _only(OPTIONAL, len(text))))
    for message in request.messages:
        text, reasoning = _texts_of(message)
        characters += len(text) + len(reasoning)
        unstable[OPTIONAL] += len(reasoning) + (_MEDIA if has_media_part(message.content) else 0)
        pieces.append((hash(type(message)), _ONE_MESSAGE))
        pieces += (_measure(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))
    return SentPrompt(tuple(pieces), tuple(unstable), characters)


def _texts_of(message: Message) -> tuple[str, str]:
    """Return the text of a message, and what a template may leave out of it."""
    text = text_of(message.content)
    if not isinstance(message, AssistantMessage):
        return text, ""
    reasoning, end, answer = text.rpartition("</think>")
    calls = "".join(call.name + call.arguments for call in message.tool_calls)
    return answer + calls, message.reasoning + reasoning + end


def _measure(text: str) -> tuple[int, Sizes]:
    """Return the piece for a text. Its sizes are remembered: a client sends the whole conversation with each turn."""
    key = hash(text)
    sizes = _known_sizes.get(key)
    if sizes is None:
        sizes = sizes_of(text)
        if len(_known_sizes) >= _MAX_KNOWN:
            _known_sizes.clear()
        _known_sizes[key] = sizes
    return key, sizes


_known_sizes: dict[int, Sizes] = {}
_MAX_KNOWN = 4_096
"""Pieces whose sizes are remembered: 1.5 MB, for 16 MB of text."""


def _only(kind: int, size: int) -> Sizes:
    return tuple(size if each == kind else 0 for each in range(len(KINDS)))


_ONE_PROMPT, _ONE_MESSAGE = _only(PROMPT, 1), _only(MESSAGE, 1)


class PromptLoss(msgspec.Struct, frozen=True):
    """The server read `tokens` of a prompt of about `expected` tokens; `exact` if the server itself counted these."""

    tokens: int
    expected: int
    exact: bool = False

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        return f"the server read only {self.tokens:,} of {about}{self.expected:,} tokens of the prompt"


class Verdict(NamedTuple):
    """What a token count says: a loss, or a doubt, which an exact count can settle."""

    loss: PromptLoss | None = None
    doubt: PromptLoss | None = None


class _Counted(NamedTuple):
    prompt: SentPrompt
    total: Sizes
    tokens: int
    whole: bool


class ModelCounts:
    """What is known of the tokens of one model's prompts."""

    def __init__(self) -> None:
        self._counted: deque[_Counted] = deque(maxlen=_MAX_REQUESTS)
        self._forget()

    def _forget(self) -> None:
        """Begin anew."""
        self.limit = 0
        """Tokens that the server keeps of a longer prompt; 0 while no loss was found."""
        self._characters = 1.0  # for a token, in the last prompt that was cut
        self._counted.clear()
        self._confirmations = 0
        self._leaves_out_cached = False
        self._plateau: list[int] = []

    @property
    def budget(self) -> int:
        """The prompt budget that fits into the limit, in tokens of `CHARACTERS_PER_TOKEN`; 0 for none."""
        return int(self.limit * _ROOM * self._characters / CHARACTERS_PER_TOKEN)

    def judge(self, prompt: SentPrompt, tokens: int) -> Verdict:
        """Take the tokens that the server reports for a prompt; say whether it has lost a part of it."""
        total = prompt.total
        least, expected = self._expect(prompt, total)
        loss = PromptLoss(tokens, expected)
        front = max((prompt.shared_front(each.prompt) for each in self._counted), default=0)
        # What a cache may hold ends within the first piece that differs.
        fewest = _dot(_LOWER, _total(prompt.pieces[front + 1 :])) * (1 - _NOISE)
        most = _dot(_UPPER, _total(prompt.pieces[front:])) * (1 + _NOISE) + _UPPER[PROMPT]
        if self.limit and self.limit * 0.99 <= tokens <= self.limit and expected > self.limit * _ABOVE:
            verdict = Verdict(self._keep(prompt, loss))  # as much as of the prompts that were cut before
        elif tokens >= least:
            verdict = self._judge_whole(loss, counts_front=tokens > most and expected - most >= _MIN_CACHED)
        else:
            verdict = self._judge_short(prompt, loss, may_be_new=fewest <= tokens <= most)
        self._counted.append(_Counted(prompt, total, tokens, whole=verdict.loss is None and tokens >= least))
        return verdict

    def settle(self, prompt: SentPrompt, tokens: int, exact: int) -> PromptLoss | None:
        """Compare with the count of the whole prompt by the server itself."""
        if tokens >= exact - _SEAM:
            return None
        return self._keep(prompt, PromptLoss(tokens, exact, exact=True))

    def _judge_whole(self, loss: PromptLoss, *, counts_front: bool) -> Verdict:
        """Handle a count that may be that of the whole prompt.

        `counts_front`: it is more than the text can take that no earlier prompt begins with.
        """
        self._plateau = []
        self._confirmations += counts_front
        if loss.tokens > self.limit:  # some servers cut whole messages, and so more than they must
            self.limit = self.limit and (loss.tokens if _is_close(self.limit, loss.tokens) else 0)
        in_doubt = loss.tokens < loss.expected * _DOUBT and not self._leaves_out_cached
        return Verdict(doubt=loss if in_doubt else None)

    def _judge_short(self, prompt: SentPrompt, loss: PromptLoss, *, may_be_new: bool) -> Verdict:
        """Handle a count that is too small for the whole prompt; `may_be_new`: not for what a cache cannot hold."""
        if loss.tokens < self.limit * (1 - 2 * _SPREAD) and loss.expected <= self.limit:
            self._forget()  # it fits: the server has another model now
        if loss.expected < _MIN_CONTEXT or self._leaves_out_cached:
            return Verdict()
        is_new = may_be_new and (self._confirmations < _CONFIRMATIONS or loss.tokens < _MIN_CACHED)
        if is_new:
            self._leaves_out_cached = loss.tokens < _MIN_CACHED
            self._confirmations, self._plateau = 0, []
        if is_new or loss.tokens < _MIN_READ:
            return Verdict()
        self._plateau = [*(each for each in self._plateau if _is_close(each, loss.tokens)), loss.tokens]
        if self._confirmations < _CONFIRMATIONS and len(self._plateau) < _PLATEAU:
            return Verdict(doubt=loss)
        return Verdict(self._keep(prompt, loss))

    def _keep(self, prompt: SentPrompt, loss: PromptLoss) -> PromptLoss:
        """Remember the limit."""
        self.limit = max(self.limit, loss.tokens)
        self._characters = prompt.characters / loss.expected
        return loss

    def _expect(self, prompt: SentPrompt, total: Sizes) -> tuple[float, int]:
        """Return the fewest tokens that the prompt takes, and about how many it takes; `total` are all its sizes."""
        least = _dot(_LOWER, total) * (1 - _NOISE)
        expected, closest = _dot(_MIDDLE, total), -1.0
        for counted in self._counted:
            if not counted.whole:
                continue
            base, new, old = counted.total, *_differences(prompt, counted.prompt)
            changed = [(1 - _NOISE) * more - (1 + _NOISE) * less for more, less in zip(new, old, strict=True)]
            least = max(least, counted.tokens + _minimise(changed, base, counted.tokens) - _SEAM)
            size, change = _dot(_MIDDLE, base), _dot(_MIDDLE, new) - _dot(_MIDDLE, old)
            if size - _dot(_MIDDLE, old) > closest:
                closest = size - _dot(_MIDDLE, old)
                expected = counted.tokens * (1 + change / max(size, 1))
        return least, max(int(expected), int(least), 1)


def _differences(prompt: SentPrompt, earlier: SentPrompt) -> tuple[Sizes, Sizes]:
    """Return the sizes that only the prompt has, and those that only the earlier one has."""
    own, others = Counter(prompt.pieces), Counter(earlier.pieces)
    new, old = (own - others).elements(), (others - own).elements()
    return _total([*new, (0, prompt.unstable)]), _total([*old, (0, earlier.unstable)])


def _minimise(changed: Sequence[float], base: Sizes, tokens: int) -> float:
    """Return the smallest sum of `changed`, over all tokens for one of each kind that make `base` take `tokens`."""
    low, high = (tokens * (1 + noise) - _dot(_LOWER, base) for noise in (-_NOISE, _NOISE))
    smallest = _dot(_LOWER, changed)
    for kind in sorted((each for each, size in enumerate(base) if size), key=lambda each: changed[each] / base[each]):
        room = high if changed[kind] < 0 else low
        share = max(min((_UPPER[kind] - _LOWER[kind]) * base[kind], room), 0)
        smallest += share * changed[kind] / base[kind]
        low, high = low - share, high - share
    return smallest


def _total(pieces: Iterable[tuple[int, Sizes]]) -> Sizes:
    return tuple(map(sum, zip(*(sizes for _, sizes in pieces), strict=True))) or _NOTHING


def _dot(weights: Sequence[float], sizes: Sequence[float]) -> float:
    return math.fsum(map(operator.mul, weights, sizes))


def _is_close(one: int, other: int) -> bool:
    return abs(one - other) <= _SPREAD * other


_MAX_PROMPTS = 8
"""System texts of a model that are compared: the agents and sub-agents that work at the same time."""
_MAX_LINES = 4_096
"""Lines of a system text that are compared; those of coding agents have some hundred."""
_MIN_CHARACTERS = 4_096
"""Characters that are read again, below which nothing is said: about 1,000 tokens, a second on a laptop."""
_EXCERPT = 120


class VaryingFront(msgspec.Struct, frozen=True):
    """A line of the system text that varies, and how many characters after it stayed the same."""

    number: int
    """The line's number, from 1."""
    line: str
    characters: int

    def __str__(self) -> str:
        tokens = self.characters // CHARACTERS_PER_TOKEN
        return (
            f"about {tokens:,} tokens of the system prompt are read again: its line {self.number} differs from the "
            f"requests before: {self.line[:_EXCERPT]!r}"
        )


class _Line(NamedTuple):
    key: int
    characters: int


class PromptFronts:
    """The system texts of one model's last requests."""

    def __init__(self) -> None:
        self._texts: deque[tuple[int, tuple[_Line, ...]]] = deque(maxlen=_MAX_PROMPTS)  # each with its hash

    def compare(self, prompt: Request) -> VaryingFront | None:
        """Take a prompt; return the line at which it leaves all that came before, if the same text follows."""
        system = prompt.messages[: count_leading_system(prompt.messages)]
        whole = "\n".join([text_of(message.content) for message in system])
        for key, _ in self._texts:  # nearly always, and before the text is split
            if key == hash(whole):
                return None
        lines = whole.splitlines()[:_MAX_LINES]
        own = tuple(_Line(hash(line), len(line) + 1) for line in lines)
        front = max((_shared_front(own, text) for _, text in self._texts), default=0)
        characters = 0  # of the lines after it that another text has too, wherever they stand there
        for _, text in self._texts:
            same = Counter(own[front:]) & Counter(text)
            characters = max(characters, sum(line.characters * count for line, count in same.items()))
        self._texts.append((hash(whole), own))
        if characters < _MIN_CHARACTERS or front == len(lines):
            return None
        return VaryingFront(front + 1, lines[front], characters)
