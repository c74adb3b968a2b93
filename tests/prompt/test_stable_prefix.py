"""Each prompt is a prefix of the next one, so that the prefix cache of the engine hits."""

import pytest
from hypothesis import given

from fcshim.messages import Message, UserMessage
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.history import split_conversation, write_history
from fcshim.prompt.profiles import PROFILES, Profile
from tests.examples import examples
from tests.prompt.conversations import chatml, conversations

Conversation = tuple[list[Message], list[Message], list[list[Message]]]

REMINDED = Profile(name="", summary="", reminder=100, reasoning_tag="<think>")


def prompt(conversation: list[Message], dialect: Dialect, profile: Profile) -> str:
    options = {"dialect": dialect, "profile": profile, "preamble": "TOOLS"}
    return chatml(write_history(*split_conversation(conversation), Escaper(BUNDLED), **options))


def check(conversation: Conversation, dialect: Dialect, profile: Profile) -> None:
    system, first, later = conversation
    said = [*system, *first]
    written = prompt(said, dialect, profile)
    for exchange in later:
        before, said = written, [*said, *exchange]
        written = prompt(said, dialect, profile)
        if profile.reasoning != "current" or not any(isinstance(message, UserMessage) for message in exchange):
            assert written.startswith(before)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@examples(4)
@given(conversation=conversations)
def test_each_prompt_is_a_prefix_of_the_next_in_every_dialect(dialect: Dialect, conversation: Conversation) -> None:
    check(conversation, dialect, REMINDED)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@given(conversation=conversations)
def test_each_prompt_is_a_prefix_of_the_next_with_every_profile(profile: Profile, conversation: Conversation) -> None:
    check(conversation, FUNCTION_CALL, profile)
