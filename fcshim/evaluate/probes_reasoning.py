"""Probes of reasoning: where it is in a reply, and whether the model sees that of earlier turns again.

Rule: what is in the text counts first, then the prompt's end, where it is shown; what a server claims does not.
Neighbours: `probes` has the table, `patient` asks; `in_reasoning` and profiles are what the answers are for.
"""

from fcshim.evaluate.finding import ProbeResult
from fcshim.evaluate.target import HELLO, ProbeTarget, assistant_message, excerpt, user_message
from fcshim.messages import AssistantMessage, TextPart
from fcshim.parse.machine.context import REASONING_TAGS

_MAX_TOKENS = 300
"""Tokens until which a model that reasons has begun to."""
_SAMPLE_REASONING = (
    "The user wants a greeting, so I should say hello. One word is enough for that; it should be friendly, and there "
    "is nothing else to be answered, no tool to be called and no number to be found."
)
_MIN_REASONING_TOKENS = 20
"""Tokens that this has at least, in any vocabulary."""


async def probe_reasoning(target: ProbeTarget) -> ProbeResult:
    """Ask something to think about, and look where the thoughts are: apart, in the text, or in a tag already open."""
    question = user_message("What is 17 + 25? Think, then answer with the number.")
    answer = await target.send(target.make_request(question, max_tokens=_MAX_TOKENS), stop_when=_has_reasoning)
    if not answer.ok and answer.complete:
        return ProbeResult("unclear", answer.error_summary())
    target.emits_reasoning = _has_reasoning(answer.text, answer.reply.reasoning)
    if answer.reply.reasoning:
        return ProbeResult("yes", "its reasoning comes apart from its text", "nothing to set", "apart")
    text = answer.text
    opened = next((tag for tag, _ in REASONING_TAGS if text.lstrip().startswith(tag.strip())), "")
    if opened:
        return ProbeResult("yes", f"its text begins with {opened.strip()!r}", "fcshim reads that tag", "text")
    closed = next((tag for tag, closing in REASONING_TAGS if closing.strip() in text), "")
    left = "" if closed else await _open_tag_in_prompt(target)
    if closed or left:
        target.emits_reasoning = True
        seen = f"its text has {_end_tag(closed)!r} alone" if closed else f"the prompt ends with {left.strip()!r}"
        tag = (closed or left).strip()
        return ProbeResult(
            "yes", f"{seen}: the template has opened it", f'in_reasoning = "{tag}"', {"in_reasoning": tag}
        )
    return ProbeResult("no", f"none in {excerpt(text)!r}")


async def probe_reasoning_replay(target: ProbeTarget) -> ProbeResult | None:
    """Tell a model that reasons what it thought in an earlier turn; the tokens say whether it sees that."""
    if not target.emits_reasoning:
        return None
    thought = AssistantMessage((TextPart("Hello."),), reasoning=_SAMPLE_REASONING)
    turns = (user_message(HELLO), thought, user_message(HELLO))
    answer = await target.send(target.make_request(*turns, max_tokens=1))
    if answer.rejected:
        return ProbeResult(
            "no", answer.error_summary(), "reasoning stays out of requests (profile thoughtless)", "refused"
        )
    bare = await target.send(target.make_request(turns[0], assistant_message("Hello."), turns[2], max_tokens=1))
    if not (answer.prompt_tokens and bare.prompt_tokens):
        return ProbeResult("unclear", answer.error_summary() if answer.problem else "nobody counts tokens")
    more = answer.prompt_tokens - bare.prompt_tokens
    means = "" if more >= _MIN_REASONING_TOKENS else "a template's own choice; profile thinking writes it as text"
    return ProbeResult("yes" if more >= _MIN_REASONING_TOKENS else "no", f"the prompt grew by {more} tokens", means)


def _has_reasoning(text: str, reasoning: str) -> bool:
    return bool(reasoning) or any(tag.strip() in text for tags in REASONING_TAGS for tag in tags)


def _end_tag(opening: str) -> str:
    return dict(REASONING_TAGS)[opening].strip()


async def _open_tag_in_prompt(target: ProbeTarget) -> str:
    """Look at the end of the prompt, where the server shows it (llama-server does)."""
    prompt = await target.rendered_prompt([{"role": "user", "content": HELLO}])
    return next((tag for tag, _ in REASONING_TAGS if prompt.rstrip().endswith(tag.strip())), "")
