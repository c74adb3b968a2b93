"""The summary of older turns: what is kept, what the model reads, and what happens when it fails."""

import pytest

from fcshim.chat.conversation import compact
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import ModelOutputError, RequestError, UpstreamError
from fcshim.messages import AssistantMessage, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage, text_of

SYSTEM = SystemMessage((TextPart("Be brief."),))


def turn(number, size=1):
    return (
        UserMessage((TextPart(f"q{number} " * size),)),
        AssistantMessage((), (ToolCall("1", "add", '{"a": 1}'),)),
        ToolMessage("1", (TextPart("3"),), "add"),
        AssistantMessage((TextPart(f"a{number}"),)),
    )


def conversation(turns, size=1):
    return (SYSTEM, *(each for number in range(turns) for each in turn(number, size)))


class Model:
    """Answers with summaries `s1`, `s2`, ...; with a `context`, longer prompts fail."""

    def __init__(self, context=10**9, answer=None):
        self.asked = []
        self.refused = 0
        self._context = context
        self._answer = answer

    async def __call__(self, text):
        if len(text) > self._context:
            self.refused += 1
            raise UpstreamError("too long", kind=CONTEXT_LENGTH)
        self.asked.append(text)
        return f"s{len(self.asked)}" if self._answer is None else self._answer


async def test_old_turns_become_a_summary_and_the_last_two_stay():
    model, messages = Model(), conversation(4)
    done = await compact(messages, model)
    system, question, summary, *rest = done.messages

    assert (2, 2, "s1") == (done.replaced, done.kept, done.summary)
    assert SYSTEM == system
    assert (UserMessage, "s1") == (type(question), text_of(summary.content))
    assert [*turn(2), *turn(3)] == rest
    (asked,) = model.asked
    assert 'user: q0 \ncall: add {"a": 1}\nresult: 3\nassistant: a0\nuser: q1' in asked
    assert "q2" not in asked


async def test_zero_sums_up_all_turns():
    done = await compact(conversation(2), Model(), 0)

    assert (2, 0, 3) == (done.replaced, done.kept, len(done.messages))


async def test_a_summary_may_be_summed_up_again():
    once = await compact(conversation(4), Model())
    model = Model(answer="both")
    twice = await compact(once.messages, model, 1)

    assert "assistant: s1" in model.asked[0]
    assert [SYSTEM, "both"] == [twice.messages[0], text_of(twice.messages[2].content)]


async def test_a_long_conversation_is_read_in_pieces_that_fit():
    model = Model(context=9_000)
    done = await compact(conversation(4, size=8_000), model, 0)
    again = [each for each in model.asked[1:] if "yours must include:\ns" in each]

    assert done.summary == f"s{len(model.asked)}"
    assert model.refused  # of 24,000 characters
    assert len(again) == len(model.asked) - 1 > 0
    assert "q3" in model.asked[-1]


@pytest.mark.parametrize("answer", ["", "  \n", "<tool_call>{}</tool_call>"])
async def test_no_summary_is_an_error(answer):
    with pytest.raises(ModelOutputError, match="the conversation stays as it was"):
        await compact(conversation(4), Model(answer=answer))


async def test_a_context_with_no_room_at_all_is_an_error():
    with pytest.raises(UpstreamError, match="too long"):
        await compact(conversation(4), Model(context=100))


@pytest.mark.parametrize(("turns", "keep"), [(0, 0), (0, 2), (1, 2), (2, 2)])
async def test_without_old_turns_there_is_nothing_to_sum_up(turns, keep):
    with pytest.raises(RequestError, match="there is nothing to sum up"):
        await compact(conversation(turns), Model(), keep)
