"""Probes of reasoning: where it is in a reply, and whether the model sees that of earlier turns again.

Rule: what is in the text counts first, then the prompt's end, where it is shown; what a server claims does not.
Neighbours: `probes` has the table, `patient` asks; `in_reasoning` and profiles are what the answers are for.
"""

from fcshim.evaluate.finding import Seen
from fcshim.evaluate.patient import HELLO, Patient, assistant, excerpt, user
from fcshim.messages import AssistantMessage, TextPart
from fcshim.parse.machine.context import REASONING_TAGS

_TOKENS = 300
"""Tokens until which a model that reasons has begun to."""
_THOUGHT = (
    "The user wants a greeting, so I should say hello. One word is enough for that; it should be friendly, and there "
    "is nothing else to be answered, no tool to be called and no number to be found."
)
_LEAST = 20
"""Tokens that this has at least, in any vocabulary."""


async def reasons(patient: Patient) -> Seen:
    """Ask something to think about, and look where the thoughts are: apart, in the text, or in a tag already open."""
    question = user("What is 17 + 25? Think, then answer with the number.")
    answer = await patient.ask(patient.request(question, max_tokens=_TOKENS), enough=_thinks)
    if not answer.good and answer.whole:
        return Seen("unclear", answer.told())
    patient.reasons = _thinks(answer.text, answer.reply.reasoning)
    if answer.reply.reasoning:
        return Seen("yes", "its reasoning comes apart from its text", "nothing to set", "apart")
    text = answer.text
    opened = next((tag for tag, _ in REASONING_TAGS if text.lstrip().startswith(tag.strip())), "")
    if opened:
        return Seen("yes", f"its text begins with {opened.strip()!r}", "fcshim reads that tag", "text")
    closed = next((tag for tag, closing in REASONING_TAGS if closing.strip() in text), "")
    left = "" if closed else await _left_open(patient)
    if closed or left:
        patient.reasons = True
        seen = f"its text has {_closing(closed)!r} alone" if closed else f"the prompt ends with {left.strip()!r}"
        tag = (closed or left).strip()
        return Seen("yes", f"{seen}: the template has opened it", f'in_reasoning = "{tag}"', {"in_reasoning": tag})
    return Seen("no", f"none in {excerpt(text)!r}")


async def sees_reasoning_again(patient: Patient) -> Seen | None:
    """Tell a model that reasons what it thought in an earlier turn; the tokens say whether it sees that."""
    if not patient.reasons:
        return None
    thought = AssistantMessage((TextPart("Hello."),), reasoning=_THOUGHT)
    turns = (user(HELLO), thought, user(HELLO))
    answer = await patient.ask(patient.request(*turns, max_tokens=1))
    if answer.refused:
        return Seen("no", answer.told(), "reasoning stays out of requests (profile thoughtless)", "refused")
    bare = await patient.ask(patient.request(turns[0], assistant("Hello."), turns[2], max_tokens=1))
    if not (answer.prompt_tokens and bare.prompt_tokens):
        return Seen("unclear", answer.told() if answer.problem else "nobody counts tokens")
    more = answer.prompt_tokens - bare.prompt_tokens
    means = "" if more >= _LEAST else "a template's own choice; profile thinking writes it as text"
    return Seen("yes" if more >= _LEAST else "no", f"the prompt grew by {more} tokens", means)


def _thinks(text: str, reasoning: str) -> bool:
    return bool(reasoning) or any(tag.strip() in text for tags in REASONING_TAGS for tag in tags)


def _closing(opening: str) -> str:
    return dict(REASONING_TAGS)[opening].strip()


async def _left_open(patient: Patient) -> str:
    """Look at the end of the prompt, where the server shows it (llama-server does)."""
    prompt = await patient.shown_prompt([{"role": "user", "content": HELLO}])
    return next((tag for tag, _ in REASONING_TAGS if prompt.rstrip().endswith(tag.strip())), "")
