"""Hypothesis strategies for conversations with tools, valid and malformed, and a minimal chat template."""

from hypothesis import strategies as st

from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

IMAGE = MediaPart("image/png", data="aGk=")
GENERATION = "<|im_start|>assistant\n"


def text(words: str) -> Content:
    return (TextPart(words),)


WORDS = (
    st.text("ab<_/>\n", max_size=6).map(text)
    | st.just(())
    | st.just((TextPart("a"), IMAGE))
    | st.integers(90, 400).map(lambda size: text("long " * (size // 5)))
)
ARGUMENTS = st.sampled_from(["{}", "", '{"a": "<b>"}', '{"a": 1', "[1]", '"{}"', "{'a': True}"])
IDS = st.lists(st.sampled_from("123"), max_size=3)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """Draw what a further request adds: a reply, then results, perhaps of other calls, user and system messages."""
    calls = tuple(ToolCall(id_, f"tool_{id_}", draw(ARGUMENTS)) for id_ in draw(IDS))
    answer = AssistantMessage(draw(WORDS), calls, draw(st.sampled_from(["", "hm"])))
    answered = [call.id for call in calls] if draw(st.booleans()) else draw(IDS)
    results = [ToolMessage(id_, draw(WORDS), is_error=draw(st.booleans())) for id_ in answered]
    users = [UserMessage(words) for words in draw(st.lists(WORDS, max_size=2))]
    notes = [SystemMessage(words) for words in draw(st.lists(WORDS, max_size=1))]
    heard = draw(st.permutations([*results, *users, *notes]))
    return [answer, *(heard or [UserMessage(text("go on"))])]


conversations = st.tuples(
    st.lists(WORDS.map(SystemMessage), max_size=2),
    st.lists(WORDS.map(UserMessage), min_size=1, max_size=2),
    st.lists(exchanges(), min_size=1, max_size=5),
)


def chatml(messages: tuple[Message, ...]) -> str:
    """Render with a ChatML template, up to the start of the model's next turn."""
    return "".join(map(_chatml_turn, messages)) + GENERATION


def _chatml_turn(message: Message) -> str:
    role = type(message).__name__.removesuffix("Message").lower()
    thought = message.reasoning if isinstance(message, AssistantMessage) else ""
    content = "".join(part.text if isinstance(part, TextPart) else "<image>" for part in message.content)
    return f"<|im_start|>{role}\n{thought}{content}<|im_end|>\n"
