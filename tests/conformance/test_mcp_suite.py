"""MCP's conformance suite: the client passes all that is required, the server all but what it does not offer."""

import pytest

from tests.conformance.mcp_suite import REVISIONS, judge_client, judge_server, scenarios

NOT_OFFERED = {
    "resources: the files of the workspace are read by tools": {
        "resources-list",
        "resources-read-binary",
        "resources-read-text",
        "resources-subscribe",
        "resources-templates-read",
        "resources-unsubscribe",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",  # a text, an image and a resource
    },
    "prompts: slash commands are a tool": {
        "input-required-result-non-tool-request",
        "prompts-get-embedded-resource",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-with-image",
        "prompts-list",
    },
    "hints for caching lists of resources and prompts": {"caching"},
    "log messages: the log goes to stderr": {"logging-set-level", "tools-call-with-logging"},
    "completion of arguments": {"completion-complete"},
    "a tool of its own that asks the client's user or model (protocols before 2026)": {
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "tools-call-elicitation",
        "tools-call-sampling",
    },
    "a result that asks the client (protocol of 2026)": {
        "input-required-result-basic-elicitation",
        "input-required-result-basic-list-roots",
        "input-required-result-basic-sampling",
        "input-required-result-capability-check",
        "input-required-result-multi-round",
        "input-required-result-multiple-input-requests",
        "input-required-result-request-state",
        "input-required-result-result-type",
        "input-required-result-tampered-state",
        "server-stateless",  # 24 of its 28 checks pass; the others call tools that ask the client, or that log
    },
}
CLIENT = [(revision, scenario) for revision in REVISIONS for scenario in scenarios(revision, "client")]


@pytest.mark.parametrize(("revision", "scenario"), CLIENT)
def test_the_client_passes_a_scenario(revision, scenario):
    result = judge_client(revision, scenario)

    assert () == result.failures


@pytest.mark.parametrize("revision", [each for each in REVISIONS if scenarios(each, "server")])
def test_the_server_fails_only_what_asks_for_something_that_it_does_not_offer(revision):
    results = judge_server(revision)
    missing = set().union(*NOT_OFFERED.values()) & results.keys()

    assert missing == {name for name, result in results.items() if result.failures}
    if revision == "2026-07-28":
        assert 4 == len(results["server-stateless"].failures)
