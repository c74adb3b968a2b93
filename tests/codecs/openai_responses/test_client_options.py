from fcshim.codecs.openai_responses.client_options import ResponsesClientOptions, read_client_options

STYLE = ResponsesClientOptions(
    custom=frozenset(["patch", "a__b"]), namespaces={"mcp__x__f": "mcp__x", "a:b__c.d": "a:b"}
)


def test_client_options_survive_their_text_form():
    assert STYLE == read_client_options(STYLE.to_text())
    assert ResponsesClientOptions() == read_client_options("") == read_client_options("functions generate")


def test_a_call_is_returned_under_the_clients_own_name():
    assert {"name": "f", "namespace": "mcp__x"} == STYLE.client_name("mcp__x__f")
    assert {"name": "g__h"} == STYLE.client_name("g__h")
