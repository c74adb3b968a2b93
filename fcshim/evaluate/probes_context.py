"""The probe that measures the context length: prompts that grow, until one is cut in silence or refused.

Theory of operation. All prompts repeat one line, so two short ones say how many tokens a line takes, and how many the
server must report for any number of lines. A smaller report means that it has cut the prompt. Where the server tells
its limit, a prompt below it and one above it settle the matter; else prompts double from `_FIRST` on, and a refusal is
narrowed down by bisection. Each prompt begins with another number, so that no prefix cache has it.
"""

import asyncio
import math

from fcshim.evaluate.result import ProbeResult
from fcshim.evaluate.target import ProbeResponse, ProbeTarget, user_message

_LINE = "The harbour master counts every boat that comes in before the tide turns.\n"
_FEW, _MORE = 2, 8
"""Lines of the two short prompts, some 40 and 130 tokens; of a model with a tiny vocabulary, three times as many."""
_FIRST = 2_048
"""Tokens of the first long prompt where the server does not tell its limit."""
_LARGEST = 2**20
"""Tokens of the largest prompt: 5 MB of text."""
_MAX_REQUESTS = 16
_BELOW, _ABOVE = 0.95, 1.1
"""The prompts that check a limit, as parts of it."""
_CUT = 0.95
"""The part of the expected tokens below which a prompt was cut; lines that are all the same leave no other reason."""
_PRECISION = 1.05
"""The ratio of a refused prompt and one that was read at which the search ends."""
_GROWTH = 1.25
"""The ratio of two prompts that is worth a request where no limit is known."""
_SLOWER = 1.5
"""How much slower a server may read a token of a longer prompt."""


async def probe_measured_context(target: ProbeTarget) -> ProbeResult | None:
    """Measure the context length, for at most `target.context_seconds`; None if that is 0."""
    return await _ContextSearch(target).run() if target.context_seconds else None


class _ContextSearch:
    """The search for the longest prompt that the server reads; sizes are in tokens."""

    def __init__(self, target: ProbeTarget) -> None:
        self._target = target
        self._told = target.context_length
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + target.context_seconds
        self._requests = 0
        self._line_tokens = 0.0
        self._token_seconds = 0.0
        self._read = 0
        self._refused = 0
        self._problem = ""

    async def run(self) -> ProbeResult:
        """Send prompts until the limit is known, or the requests or the time are over."""
        few, more = [await self._send(lines) for lines in (_FEW, _MORE)]
        if not few.ok or not more.ok:
            return ProbeResult("unclear", (more if few.ok else few).error_summary())
        line_tokens = self._line_tokens = (more.prompt_tokens - few.prompt_tokens) / (_MORE - _FEW)
        if line_tokens < 1:
            return ProbeResult("unclear", "the server does not count the tokens of a prompt")
        other_tokens = few.prompt_tokens - _FEW * line_tokens
        self._read = more.prompt_tokens
        while size := self._next_size():
            lines = max(int((size - other_tokens) / line_tokens), 1)
            expected = round(other_tokens + lines * line_tokens)
            response = await self._send(lines)
            if response.ok and 0 < response.prompt_tokens < expected * _CUT:
                return self._describe_cut(response.prompt_tokens, expected)
            if not response.ok:
                self._problem = response.error_summary()
            if response.rejected:
                self._refused = expected
            elif response.prompt_tokens:
                self._read = max(self._read, response.prompt_tokens)
            else:
                break
        return self._describe()

    async def _send(self, lines: int) -> ProbeResponse:
        self._requests += 1
        text = f"{self._requests}.\n{_LINE * lines}Say hello."
        began = self._clock()
        try:
            async with asyncio.timeout_at(self._deadline):
                response = await self._target.send(self._target.make_request(user_message(text), max_tokens=1))
        except TimeoutError:
            return ProbeResponse(status=0, problem=f"no answer within {self._target.context_seconds:g} s")
        if response.prompt_tokens:
            self._token_seconds = (self._clock() - began) / response.prompt_tokens
        return response

    def _next_size(self) -> int:
        """Return the tokens of the next prompt; 0 if the limit is known, or nothing more can be found out."""
        if self._requests >= _MAX_REQUESTS or self._confirms_told or self._read >= _LARGEST * _CUT:
            return 0
        affordable = (self._deadline - self._clock()) / max(self._token_seconds * _SLOWER, 1e-9)
        if self._refused:
            middle = int(math.sqrt(self._read * self._refused))
            is_close = self._refused <= max(self._read * _PRECISION, self._read + 2 * self._line_tokens)
            return 0 if is_close or middle > affordable else middle
        is_checked = self._read >= self._told * _BELOW * _CUT
        of_told = self._told * (_ABOVE if is_checked else _BELOW)
        if self._read < of_told * _CUT and of_told <= min(affordable, _LARGEST):
            return int(of_told)
        size = int(min(max(_FIRST, 2 * self._read), affordable, _LARGEST))
        return size if size >= self._read * _GROWTH else 0

    @property
    def _confirms_told(self) -> bool:
        """Whether a prompt somewhat below the limit was read, and one somewhat above it refused."""
        return self._read >= self._told * _BELOW * _CUT and 0 < self._refused <= self._told * _ABOVE

    def _describe_cut(self, tokens: int, expected: int) -> ProbeResult:
        means = "longer prompts are cut in silence, tools first: give the server a longer context"
        evidence = f"{tokens} tokens: of a prompt of {expected} the server read no more"
        return ProbeResult("yes", evidence + self._differs(tokens), means, tokens)

    def _describe(self) -> ProbeResult:
        if self._refused:
            tokens = self._told if self._confirms_told else self._read
            refused = f"one of {self._refused} refused ({self._problem})"
            evidence = f"{tokens} tokens: a prompt of {self._read} was read, {refused}"
            return ProbeResult("yes", evidence + self._differs(tokens), "", tokens)
        why = self._problem or f"a longer prompt takes more than {self._target.context_seconds:g} s"
        why = why if self._read < _LARGEST * _CUT else "no longer prompt is sent"
        return ProbeResult("unclear", f"at least {self._read} tokens; {why}")

    def _differs(self, tokens: int) -> str:
        is_near = not self._told or self._told * _BELOW * _CUT <= tokens <= self._told * _ABOVE
        return "" if is_near else f"; it reports {self._told}"
