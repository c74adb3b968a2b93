"""Probes of replies: whether there are any, token counts, flaws of the stream, concurrency, stop strings, reasoning.

The first probe sends the baseline request; what its response shows needs no other request. Where reasoning is in a
reply, its text is the first evidence, then the end of the prompt if the server shows it. What a server claims about its
model is not used.
"""

import asyncio

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.evaluate.result import ProbeResult
from fcshim.evaluate.target import HELLO, ProbeTarget, assistant_message, excerpt, user_message
from fcshim.messages import AssistantMessage, TextPart
from fcshim.parse.machine.known_markers import REASONING_TAGS

_MAX_TOKENS = 32
_CONCURRENT_REQUESTS = 3
_STOP_LENGTH = 3
"""Characters of the stop string, which is taken from the baseline reply."""
_MIN_TOKENS = 8
"""Tokens of a reply from which on a stream is expected to have several events."""
_MIN_SECONDS = 0.5
"""Seconds that a reply must take before text that arrives only at its end counts as buffered."""


async def probe_reply(target: ProbeTarget) -> ProbeResult:
    """Send the baseline request; if it is rejected, retry without sampling fields, which some models do not accept."""
    answer = await target.send(target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS))
    if answer.rejected:
        retried = await target.send(
            target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS, temperature=None, seed=None)
        )
        if retried.ok:
            target.sampling, answer = {}, retried
    target.baseline, target.baseline_tokens = answer, answer.prompt_tokens
    if not answer.ok:
        return ProbeResult("no", answer.error_summary(), "without replies there are no tool calls", fatal=True)
    text = excerpt(answer.text or answer.reply.reasoning)
    return ProbeResult("yes", f"{text!r} in {answer.seconds:.2g} s")


async def probe_usage(target: ProbeTarget) -> ProbeResult:
    """Check whether a stream has token counts; otherwise look for them in replies that are not streamed."""
    usage = target.baseline.reply.usage
    if usage is None:
        means = "token counts are estimates: four characters a token"
        if not await _use_unstreamed_usage(target):
            return ProbeResult("no", "no usage in its stream", means)
        return ProbeResult(
            "no", f"no usage in its stream, but in unstreamed replies: {target.baseline_tokens} tokens in", means
        )
    return ProbeResult("yes", f"{usage.input_tokens} tokens in, {usage.output_tokens} out")


async def _use_unstreamed_usage(target: ProbeTarget) -> bool:
    """Send the baseline request without streaming. If its tokens are counted, later probes do not stream either."""
    if target.upstream.kind.codec is not OPENAI_CHAT:
        return False
    target.streaming = False
    answer = await target.send(target.make_request(user_message(HELLO), max_tokens=1))
    target.streaming, target.baseline_tokens = not answer.prompt_tokens, answer.prompt_tokens
    return not target.streaming


async def probe_concurrency(target: ProbeTarget) -> ProbeResult:
    """Send the baseline request several times concurrently; every response should be complete."""
    streaming, target.streaming = target.streaming, True
    requests = [
        target.send(target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS))
        for _ in range(_CONCURRENT_REQUESTS)
    ]
    answers = await asyncio.gather(*requests)
    target.streaming = streaming
    broken = [answer for answer in answers if not answer.ok]
    if broken:
        evidence = f"{len(broken)} of {_CONCURRENT_REQUESTS} concurrent requests failed: {broken[0].error_summary()}"
        return ProbeResult("no", evidence, "use one client at a time; concurrent requests abort each other")
    return ProbeResult("yes", f"{_CONCURRENT_REQUESTS} concurrent requests were all answered")


async def probe_stream(target: ProbeTarget) -> ProbeResult:
    """Look for known flaws of streams in the baseline response."""
    flaws = [flaw for flaw, is_present in _FLAWS if is_present(target)]
    if not flaws:
        return ProbeResult("yes", f"{len(target.baseline.arrivals)} chunks of text, one after the other")
    return ProbeResult("no", "; ".join(flaws), "fcshim repairs this; its clients get clean streams", flaws)


def _is_unstreamed(target: ProbeTarget) -> bool:
    return target.upstream.kind.codec is OPENAI_CHAT and target.baseline.raw.lstrip()[:1] == b"{"


def _is_buffered(target: ProbeTarget) -> bool:
    baseline = target.baseline
    usage = baseline.reply.usage
    tokens = usage.output_tokens if usage is not None else len(baseline.arrivals)
    late = bool(baseline.arrivals) and baseline.seconds > _MIN_SECONDS and baseline.arrivals[0] > 0.9 * baseline.seconds
    return not _is_unstreamed(target) and tokens >= _MIN_TOKENS and (len(baseline.arrivals) < 2 or late)


def _is_event_stream(target: ProbeTarget) -> bool:
    return target.upstream.kind.codec is OPENAI_CHAT and not _is_unstreamed(target)


_FLAWS = (
    ("the reply came as one JSON document instead of a stream", _is_unstreamed),
    ("all text came at once, at the end", _is_buffered),
    ("no [DONE] at its end", lambda target: _is_event_stream(target) and b"[DONE]" not in target.baseline.raw),
    ("its lines end with CRLF", lambda target: _is_event_stream(target) and b"\r\n" in target.baseline.raw),
    ("the role comes with every chunk", lambda target: target.baseline.raw.count(b'"role"') > _MIN_TOKENS),
)


async def probe_stop_strings(target: ProbeTarget) -> ProbeResult:
    """Repeat the baseline request with a stop string that occurs inside the baseline reply."""
    text = target.baseline.text
    # The first position at which the string occurs for the first time, so that the reply must end there.
    at = next((at for at in range(1, len(text) - _STOP_LENGTH + 1) if text.find(text[at : at + _STOP_LENGTH]) == at), 0)
    if not at:
        return ProbeResult(
            "unclear",
            "the baseline reply is too short for a stop string",
            "fcshim applies stop strings where tools are offered",
        )
    word = text[at : at + _STOP_LENGTH]
    answer = await target.send(target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS, stop=(word,)))
    if not answer.ok:
        return ProbeResult(
            "no", answer.error_summary(), "stop strings are rejected; fcshim applies them where tools are offered"
        )
    if word not in answer.text and text.startswith(answer.text):
        return ProbeResult("yes", f"stop {word!r} ended the reply after {excerpt(answer.text)!r}")
    if text == answer.text:
        return ProbeResult(
            "no", f"stop {word!r} made no difference", "fcshim applies stop strings where tools are offered"
        )
    return ProbeResult("unclear", f"the reply changed to {excerpt(answer.text)!r}")


_REASONING_TOKENS = 300
"""Tokens within which a model that reasons has started to."""
_SAMPLE_REASONING = (
    "The user wants a greeting, so I should say hello. One word is enough for that; it should be friendly, and there "
    "is nothing else to be answered, no tool to be called and no number to be found."
)
_MIN_REASONING_TOKENS = 20
"""Fewest tokens of the sample reasoning in any vocabulary."""


async def probe_reasoning(target: ProbeTarget) -> ProbeResult:
    """Ask a question that needs reasoning, and look for it: in its own field, in the text, or after an open tag."""
    question = user_message("What is 17 + 25? Think, then answer with the number.")
    answer = await target.send(target.make_request(question, max_tokens=_REASONING_TOKENS), stop_when=_has_reasoning)
    if not answer.ok and answer.complete:
        return ProbeResult("unclear", answer.error_summary())
    target.emits_reasoning = _has_reasoning(answer.text, answer.reply.reasoning)
    if answer.reply.reasoning:
        return ProbeResult("yes", "its reasoning is in a field of its own", "nothing to set", "apart")
    text = answer.text
    opened = next((tag for tag, _ in REASONING_TAGS if text.lstrip().startswith(tag.strip())), "")
    if opened:
        return ProbeResult("yes", f"its text begins with {opened.strip()!r}", "fcshim reads that tag", "text")
    closed = next((tag for tag, closing in REASONING_TAGS if closing.strip() in text), "")
    prompt = "" if closed else await target.rendered_prompt([{"role": "user", "content": HELLO}])
    in_prompt = next((tag for tag, _ in REASONING_TAGS if prompt.rstrip().endswith(tag.strip())), "")
    if closed or in_prompt:
        target.emits_reasoning = True
        evidence = (
            f"its text has only {_end_tag(closed)!r}" if closed else f"the prompt ends with {in_prompt.strip()!r}"
        )
        tag = (closed or in_prompt).strip()
        return ProbeResult(
            "yes",
            f"{evidence}: the chat template opens it",
            f'open_reasoning_tag = "{tag}"',
            {"open_reasoning_tag": tag},
        )
    return ProbeResult("no", f"none in {excerpt(text)!r}")


async def probe_reasoning_replay(target: ProbeTarget) -> ProbeResult | None:
    """Send reasoning in an earlier turn; the token count shows whether it is in the prompt."""
    if not target.emits_reasoning:
        return None
    thought = AssistantMessage((TextPart("Hello."),), reasoning=_SAMPLE_REASONING)
    turns = (user_message(HELLO), thought, user_message(HELLO))
    answer = await target.send(target.make_request(*turns, max_tokens=1))
    if answer.rejected:
        return ProbeResult(
            "no", answer.error_summary(), "reasoning stays out of requests (profile no-reasoning)", "refused"
        )
    bare = await target.send(target.make_request(turns[0], assistant_message("Hello."), turns[2], max_tokens=1))
    if not (answer.prompt_tokens and bare.prompt_tokens):
        return ProbeResult("unclear", answer.error_summary() if answer.problem else "tokens are not counted")
    more = answer.prompt_tokens - bare.prompt_tokens
    means = "" if more >= _MIN_REASONING_TOKENS else "the chat template omits it; profile thinking writes it as text"
    return ProbeResult("yes" if more >= _MIN_REASONING_TOKENS else "no", f"the prompt grew by {more} tokens", means)


def _has_reasoning(text: str, reasoning: str) -> bool:
    return bool(reasoning) or any(tag.strip() in text for tags in REASONING_TAGS for tag in tags)


def _end_tag(opening: str) -> str:
    return dict(REASONING_TAGS)[opening].strip()
