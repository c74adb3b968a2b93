"""Probes of how replies come: at all, with which counts and flaws, and whether stop strings end them.

Rule: one simple question is asked first; whatever can be read off its answer is not asked again.
Neighbours: `probes` has the table, `patient` asks.
"""

import asyncio

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.evaluate.finding import Seen
from fcshim.evaluate.patient import HELLO, Patient, excerpt, user

_TOKENS = 32
_AT_ONCE = 3
_STOP = 3
"""Characters of a stop string that is taken from the model's own words."""
_LUMP = 8
"""Tokens of a reply that a stream would bring one by one."""
_SLOW = 0.5
"""Seconds that such a reply must take before its coming all at the end is no chance."""


async def replies(patient: Patient) -> Seen:
    """Ask one simple question; where that is refused, once more without saying how to sample."""
    answer = await patient.ask(patient.request(user(HELLO), max_tokens=_TOKENS))
    if answer.refused:
        again = await patient.ask(patient.request(user(HELLO), max_tokens=_TOKENS, temperature=None, seed=None))
        if again.good:
            patient.sampling, answer = {}, again
    patient.plain, patient.plain_tokens = answer, answer.prompt_tokens
    if not answer.good:
        return Seen("no", answer.told(), "it gives no replies, so there is nothing to write calls in", fatal=True)
    said = excerpt(answer.text or answer.reply.reasoning)
    return Seen("yes", f"{said!r} in {answer.seconds:.2g} s")


async def counts_tokens(patient: Patient) -> Seen:
    """Look whether a stream ends with the numbers of tokens; if not, whole replies may have them, for other probes."""
    usage = patient.plain.reply.usage
    if usage is None:
        means = "token counts are estimates: four characters a token"
        if not await _counts_whole(patient):
            return Seen("no", "no usage in its stream", means)
        return Seen("no", f"no usage in its stream, but in whole replies: {patient.plain_tokens} tokens in", means)
    return Seen("yes", f"{usage.input_tokens} tokens in, {usage.output_tokens} out")


async def _counts_whole(patient: Patient) -> bool:
    """Ask the simple question for a whole reply; where that is counted, everything else is asked so."""
    if patient.upstream.kind.codec is not OPENAI_CHAT:
        return False
    patient.streams = False
    answer = await patient.ask(patient.request(user(HELLO), max_tokens=1))
    patient.streams, patient.plain_tokens = not answer.prompt_tokens, answer.prompt_tokens
    return not patient.streams


async def bears_company(patient: Patient) -> Seen:
    """Ask the simple question several times at once; each should be answered whole."""
    patient_streams, patient.streams = patient.streams, True
    asked = [patient.ask(patient.request(user(HELLO), max_tokens=_TOKENS)) for _ in range(_AT_ONCE)]
    answers = await asyncio.gather(*asked)
    patient.streams = patient_streams
    broken = [answer for answer in answers if not answer.good]
    if broken:
        evidence = f"of {_AT_ONCE} requests at once {len(broken)} failed: {broken[0].told()}"
        return Seen("no", evidence, "one client at a time, or they break off one another's replies")
    return Seen("yes", f"{_AT_ONCE} requests at once were all answered")


async def streams_cleanly(patient: Patient) -> Seen:
    """Look for what servers get wrong in streams."""
    flaws = [words for words, shows in _FLAWS if shows(patient)]
    if not flaws:
        return Seen("yes", f"{len(patient.plain.arrivals)} pieces of text, one after the other")
    return Seen("no", "; ".join(flaws), "fcshim reads and mends this; its clients get clean streams", flaws)


def _came_whole(patient: Patient) -> bool:
    return patient.upstream.kind.codec is OPENAI_CHAT and patient.plain.raw.lstrip()[:1] == b"{"


def _came_at_once(patient: Patient) -> bool:
    plain = patient.plain
    usage = plain.reply.usage
    tokens = usage.output_tokens if usage is not None else len(plain.arrivals)
    slow = bool(plain.arrivals) and plain.seconds > _SLOW and plain.arrivals[0] > 0.9 * plain.seconds
    return not _came_whole(patient) and tokens >= _LUMP and (len(plain.arrivals) < 2 or slow)


def _events(patient: Patient) -> bool:
    return patient.upstream.kind.codec is OPENAI_CHAT and not _came_whole(patient)


_FLAWS = (
    ("the reply came as one JSON document instead of a stream", _came_whole),
    ("all text came at once, at the end", _came_at_once),
    ("no [DONE] at its end", lambda patient: _events(patient) and b"[DONE]" not in patient.plain.raw),
    ("its lines end with CRLF", lambda patient: _events(patient) and b"\r\n" in patient.plain.raw),
    ("the role comes with every chunk", lambda patient: patient.plain.raw.count(b'"role"') > _LUMP),
)


async def stops(patient: Patient) -> Seen:
    """Ask once more, with a stop string taken from the middle of the answer that came before."""
    said = patient.plain.text
    at = next((at for at in range(1, len(said) - _STOP + 1) if said.find(said[at : at + _STOP]) == at), 0)
    if not at:
        return Seen(
            "unclear", "its reply was too short to stop it", "fcshim minds stop strings wherever tools are offered"
        )
    word = said[at : at + _STOP]
    answer = await patient.ask(patient.request(user(HELLO), max_tokens=_TOKENS, stop=(word,)))
    if not answer.good:
        return Seen("no", answer.told(), "stop strings are refused; fcshim minds them where tools are offered")
    if word not in answer.text and said.startswith(answer.text):
        return Seen("yes", f"stop {word!r} ended the reply after {excerpt(answer.text)!r}")
    if said == answer.text:
        return Seen("no", f"stop {word!r} made no difference", "fcshim minds stop strings wherever tools are offered")
    return Seen("unclear", f"the reply changed to {excerpt(answer.text)!r}")
