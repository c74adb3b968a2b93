"""Probes of how replies come: at all, with which counts and flaws, and whether stop strings end them.

Rule: one simple question is asked first; whatever can be read off its answer is not asked again.
Neighbours: `probes` has the table, `patient` asks.
"""

import asyncio

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.evaluate.finding import ProbeResult
from fcshim.evaluate.target import HELLO, ProbeTarget, excerpt, user_message

_MAX_TOKENS = 32
_CONCURRENT_REQUESTS = 3
_STOP_LENGTH = 3
"""Characters of a stop string that is taken from the model's own words."""
_MIN_TOKENS = 8
"""Tokens of a reply that a stream would bring one by one."""
_MIN_SECONDS = 0.5
"""Seconds that such a reply must take before its coming all at the end is no chance."""


async def probe_reply(target: ProbeTarget) -> ProbeResult:
    """Ask one simple question; where that is refused, once more without saying how to sample."""
    answer = await target.send(target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS))
    if answer.rejected:
        again = await target.send(
            target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS, temperature=None, seed=None)
        )
        if again.ok:
            target.sampling, answer = {}, again
    target.baseline, target.baseline_tokens = answer, answer.prompt_tokens
    if not answer.ok:
        return ProbeResult(
            "no", answer.error_summary(), "it gives no replies, so there is nothing to write calls in", fatal=True
        )
    said = excerpt(answer.text or answer.reply.reasoning)
    return ProbeResult("yes", f"{said!r} in {answer.seconds:.2g} s")


async def probe_usage(target: ProbeTarget) -> ProbeResult:
    """Look whether a stream ends with the numbers of tokens; if not, whole replies may have them, for other probes."""
    usage = target.baseline.reply.usage
    if usage is None:
        means = "token counts are estimates: four characters a token"
        if not await _use_unstreamed_usage(target):
            return ProbeResult("no", "no usage in its stream", means)
        return ProbeResult(
            "no", f"no usage in its stream, but in whole replies: {target.baseline_tokens} tokens in", means
        )
    return ProbeResult("yes", f"{usage.input_tokens} tokens in, {usage.output_tokens} out")


async def _use_unstreamed_usage(target: ProbeTarget) -> bool:
    """Ask the simple question for a whole reply; where that is counted, everything else is asked so."""
    if target.upstream.kind.codec is not OPENAI_CHAT:
        return False
    target.streaming = False
    answer = await target.send(target.make_request(user_message(HELLO), max_tokens=1))
    target.streaming, target.baseline_tokens = not answer.prompt_tokens, answer.prompt_tokens
    return not target.streaming


async def probe_concurrency(target: ProbeTarget) -> ProbeResult:
    """Ask the simple question several times at once; each should be answered whole."""
    patient_streams, target.streaming = target.streaming, True
    asked = [
        target.send(target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS))
        for _ in range(_CONCURRENT_REQUESTS)
    ]
    answers = await asyncio.gather(*asked)
    target.streaming = patient_streams
    broken = [answer for answer in answers if not answer.ok]
    if broken:
        evidence = f"of {_CONCURRENT_REQUESTS} requests at once {len(broken)} failed: {broken[0].error_summary()}"
        return ProbeResult("no", evidence, "one client at a time, or they break off one another's replies")
    return ProbeResult("yes", f"{_CONCURRENT_REQUESTS} requests at once were all answered")


async def probe_stream(target: ProbeTarget) -> ProbeResult:
    """Look for what servers get wrong in streams."""
    flaws = [words for words, shows in _FLAWS if shows(target)]
    if not flaws:
        return ProbeResult("yes", f"{len(target.baseline.arrivals)} pieces of text, one after the other")
    return ProbeResult("no", "; ".join(flaws), "fcshim reads and mends this; its clients get clean streams", flaws)


def _is_unstreamed(target: ProbeTarget) -> bool:
    return target.upstream.kind.codec is OPENAI_CHAT and target.baseline.raw.lstrip()[:1] == b"{"


def _is_buffered(target: ProbeTarget) -> bool:
    plain = target.baseline
    usage = plain.reply.usage
    tokens = usage.output_tokens if usage is not None else len(plain.arrivals)
    slow = bool(plain.arrivals) and plain.seconds > _MIN_SECONDS and plain.arrivals[0] > 0.9 * plain.seconds
    return not _is_unstreamed(target) and tokens >= _MIN_TOKENS and (len(plain.arrivals) < 2 or slow)


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
    """Ask once more, with a stop string taken from the middle of the answer that came before."""
    said = target.baseline.text
    at = next((at for at in range(1, len(said) - _STOP_LENGTH + 1) if said.find(said[at : at + _STOP_LENGTH]) == at), 0)
    if not at:
        return ProbeResult(
            "unclear", "its reply was too short to stop it", "fcshim minds stop strings wherever tools are offered"
        )
    word = said[at : at + _STOP_LENGTH]
    answer = await target.send(target.make_request(user_message(HELLO), max_tokens=_MAX_TOKENS, stop=(word,)))
    if not answer.ok:
        return ProbeResult(
            "no", answer.error_summary(), "stop strings are refused; fcshim minds them where tools are offered"
        )
    if word not in answer.text and said.startswith(answer.text):
        return ProbeResult("yes", f"stop {word!r} ended the reply after {excerpt(answer.text)!r}")
    if said == answer.text:
        return ProbeResult(
            "no", f"stop {word!r} made no difference", "fcshim minds stop strings wherever tools are offered"
        )
    return ProbeResult("unclear", f"the reply changed to {excerpt(answer.text)!r}")
