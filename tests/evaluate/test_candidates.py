"""The table of candidates."""

from fcshim import Client
from fcshim.evaluate.candidates import COMMON_CANDIDATES, NATIVE_TOOLS, candidates_for


def names(model, **options):
    return [row.name for row in candidates_for(model, **{"native": False, "provider_api": False, **options})]


def test_the_models_own_dialect_is_the_first_candidate_and_none_is_repeated():
    styles = ["function_call, example", "function_call, refusal"]

    assert ["hermes", *styles, "bare_json", "function_call", "fenced_json", "pythonic"] == names("qwen3-8b")
    assert [*styles, "bare_json", "native", "function_call", "fenced_json", "pythonic", "hermes"] == names(
        "x", native=True
    )
    assert "harmony" == names("gpt-oss-20b", provider_api=True)[0]


def test_the_native_tools_of_a_provider_are_the_only_candidate():
    assert ["native"] == names("claude", native=True, provider_api=True)


async def test_every_row_has_settings_of_the_client():
    for row in (*COMMON_CANDIDATES, NATIVE_TOOLS):
        await Client("http://127.0.0.1:9", **row.settings).aclose()
