"""Probes of reasoning: where it is in a reply, and whether reasoning of earlier turns is in the prompt.

Rule: the text of the reply is the first evidence, then the end of the prompt if the server shows it. What a server
claims about its model is not used.
"""

from fcshim.evaluate.result import ProbeResult
from fcshim.evaluate.target import HELLO, ProbeTarget, assistant_message, excerpt, user_message
from fcshim.messages import AssistantMessage, TextPart
from fcshim.parse.machine.known_markers import REASONING_TAGS

_MAX_TOKENS = 300
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
    answer = await target.send(target.make_request(question, max_tokens=_MAX_TOKENS), stop_when=_has_reasoning)
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
    in_prompt = "" if closed else await _open_tag_in_prompt(target)
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


async def _open_tag_in_prompt(target: ProbeTarget) -> str:
    """Return the opening tag at the end of the prompt, if the server shows the prompt (llama-server does)."""
    prompt = await target.rendered_prompt([{"role": "user", "content": HELLO}])
    return next((tag for tag, _ in REASONING_TAGS if prompt.rstrip().endswith(tag.strip())), "")
