"""The profile table."""

import pytest

from fcshim.errors import ConfigError
from fcshim.prompt.profiles import AUTO, DEFAULT, PROFILES, chosen_profile, get_profile


def test_a_profile_is_found_by_its_name() -> None:
    assert PROFILES["no-system"] is get_profile("no-system")
    assert DEFAULT is get_profile(DEFAULT)


def test_an_unknown_profile_names_the_near_one() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown profile 'no_system', did you mean 'no-system'\? Known profiles: def"
    ):
        get_profile("no_system")


def test_profiles_are_joined_by_a_plus() -> None:
    both = get_profile("no-system + text-only")

    assert ("no-system+text-only", False, True, False) == (both.name, both.system_role, both.alternate, both.media)
    assert not get_profile("no-system+free").alternate
    assert ("<think>", 4_000) == (
        get_profile("thinking+reminded").reasoning_tag,
        get_profile("thinking+reminded").reminder,
    )
    with pytest.raises(ConfigError, match="unknown profile 'text'"):
        get_profile("no-system+text")


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("gemma-2-9b-it-Q4_K_M.gguf", "no-system"),
        ("google/gemma-7b-it", "no-system"),
        ("C:\\models\\Gemma2-2B.gguf", "no-system"),
        ("gemma-3-4b-it", "default"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "no-system"),
        ("Mistral-7B-Instruct-v0.3", "default"),
        ("mixtral-8x7b-instruct-v0.1.Q4_0.gguf", "no-system"),
        ("qwen3-8b", "default"),
        ("", "default"),
    ],
)
def test_a_models_name_chooses_its_profile(model: str, profile: str) -> None:
    assert profile == chosen_profile(AUTO, model).name


def test_every_profile_is_stored_under_its_name() -> None:
    assert list(PROFILES) == [row.name for row in PROFILES.values()]
