"""The settings that follow from findings and from the race."""

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.evaluate.connect import EndpointInfo
from fcshim.evaluate.recommendations import explain, model_pattern, recommend, recommend_candidate
from fcshim.evaluate.result import Finding
from fcshim.evaluate.standings import Outcome, Standing, report_on
from fcshim.pipeline.backends import get_backend
from fcshim.upstream.detection import Detection


def make_endpoint(server="generic", model="m", names=("m",), api="openai") -> EndpointInfo:
    return EndpointInfo("http://h", UPSTREAMS[api], Detection(get_backend(server), "it says so"), names, model)


def make_finding(probe, verdict, value=None) -> Finding:
    return Finding(probe=probe, title=f"about {probe}", verdict=verdict, evidence=f"{probe} seen", value=value)


def recommended_settings(*findings, measured=(), **endpoint):
    return {choice.setting: choice.value for choice in recommend(make_endpoint(**endpoint), findings, measured)}


def test_without_findings_only_the_endpoint_is_set():
    assert {"upstream": "http://h", "upstream_api": "openai"} == recommended_settings()


@pytest.mark.parametrize(
    ("server", "works", "expected"),
    [
        ("llama-server", ["grammar", "schema"], "llama-server"),
        ("ollama", ["schema"], "ollama"),
        ("vllm", ["grammar", "structural_tag", "schema"], "vllm"),
        ("generic", ["grammar", "schema"], "llama-server"),
        ("generic", ["structural_tag", "schema"], "sglang"),
        ("vllm", ["schema"], "lmstudio"),
        ("llama-server", [], "off"),
    ],
)
def test_an_enforced_constraint_is_recommended_the_backends_own_form_first(server, works, expected):
    probes = ("grammar", "schema", "structural_tag")
    found = [make_finding(probe, "yes" if probe in works else "no") for probe in probes]

    assert expected == recommended_settings(*found, server=server)["constrain"]


def test_a_dialect_that_cannot_be_constrained_is_noted_at_the_recommendation():
    found = [make_finding("grammar", "yes")]
    (constrain,) = [
        choice
        for choice in recommend(make_endpoint("llama-server"), found, note="it cannot be constrained")
        if choice.setting == "constrain"
    ]

    assert "grammar seen; but it cannot be constrained" == constrain.reason


def test_unclear_constraints_are_left_to_the_detection_by_serve():
    unclear = [make_finding(probe, "unclear") for probe in ("grammar", "schema", "structural_tag")]

    assert "constrain" not in recommended_settings(*unclear)


@pytest.mark.parametrize(
    ("no", "model", "expected"),
    [
        ([], "m", None),
        (["system"], "m", "no-system"),
        (["images"], "m", "text-only"),
        (["system", "images"], "m", "no-system+text-only"),
        ([], "gemma-2-9b-it", "default"),
        (["images"], "gemma-2-9b-it", "text-only"),
    ],
)
def test_the_profile_follows_the_findings_rather_than_the_models_name(no, model, expected):
    found = [make_finding(probe, "no" if probe in no else "yes") for probe in ("system", "images")]

    assert expected == recommended_settings(*found, model=model).get("profile")


def test_without_a_finding_the_profile_follows_the_models_name():
    assert "profile" not in recommended_settings(make_finding("system", "unclear"), model="gemma-2-9b-it")
    assert "profile" not in recommended_settings(make_finding("system", "no"), model="gemma-2-9b-it")
    assert "no-system+text-only" == recommended_settings(make_finding("images", "no"), model="gemma-2-9b-it")["profile"]


def test_rejected_reasoning_is_left_out_and_dropped_reasoning_is_not():
    assert "no-reasoning" == recommended_settings(make_finding("replay", "no", "refused"))["profile"]
    assert "profile" not in recommended_settings(make_finding("replay", "no"))


def test_an_open_reasoning_tag_and_a_known_context_length_are_set():
    opened, room = (
        make_finding("reasoning", "yes", {"open_reasoning_tag": "<think>"}),
        make_finding("context", "yes", 4096),
    )

    assert {"open_reasoning_tag": "<think>", "prompt_budget": 2867}.items() <= recommended_settings(
        opened, room
    ).items()


@pytest.mark.parametrize(("verdict", "expected"), [("yes", "auto"), ("no", "prompt"), ("unclear", "prompt")])
def test_untested_native_tools_are_used_with_a_fallback(verdict, expected):
    assert expected == recommended_settings(make_finding("tools", verdict))["tools"]


def make_report(name, settings, *right):
    outcomes = tuple(Outcome("right" if each else "missing_call", True, each) for each in right)
    return report_on(Standing(name=name, settings=settings, outcomes=outcomes, prompt_tokens=90))


def test_the_settings_of_the_best_candidate_are_set_with_the_results_of_the_others_as_reason():
    best = make_report("hermes", {"tools": "prompt", "dialect": "hermes"}, True, True, False)
    native = make_report("native", {"tools": "native"}, True, False, False)
    untried = make_report("pythonic", {"tools": "prompt", "dialect": "pythonic"})
    measured = recommend_candidate(best, [best, untried, native])

    assert {"tools": "prompt", "dialect": "hermes"} == {choice.setting: choice.value for choice in measured}
    assert "of the best candidate, hermes" == measured[0].reason
    assert (
        "hermes: 2 of 3 right (calls 2 of 3), 90 tokens a prompt; 1 missing call. Others: native: 1 of 3"
        == measured[1].reason
        == explain(best, [untried, native])
    )
    assert "prompt" == recommended_settings(make_finding("tools", "yes"), measured=measured)["tools"]
    assert ["native"] == [choice.value for choice in recommend_candidate(native, [native])]


def test_only_settings_of_one_model_belong_into_its_table():
    constrained = make_report("grammar", {"dialect": "hermes", "constrain": "llama-server"}, True)

    assert {"dialect": True, "constrain": False} == {
        choice.setting: choice.of_model for choice in recommend_candidate(constrained, [])
    }


def test_the_only_model_of_a_server_has_the_table_for_all():
    assert ("*", "b") == (model_pattern(make_endpoint()), model_pattern(make_endpoint(names=("a", "b"), model="b")))
    assert "m" == model_pattern(make_endpoint(names=()))
