"""Facts and markup in the text of a reply."""

import pytest

from benchmarks.models.answer_text import markup_in, missing_facts
from fcshim.parse.dialects import DIALECTS


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (("Odense",), "It is in ODENSE now."),
        (("3.7",), "The total weight is **3.70 kg**."),
        (("3.7",), "2 × 1.4 + 0.9 = 3.7kg."),
        (("3200",), "That is 3,200 g"),
        (("1250",), "1\u202f250.00"),
        (("-4",), "It has −4 °C."),
        (("35",), "(35-minute timer)"),
        (("116",), "Total: $116."),
        (("13:00", "1 PM"), "You leave at 1 pm."),
        (("2026-05-19", "May 19"), "On May 19, 2026."),
        (("49.5",), "K-12 costs 49.50, P-05 costs 41"),
    ],
)
def test_a_text_states_a_fact_in_any_spelling(fact, text):
    assert [] == missing_facts([fact], text)


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (("3.7",), "13.7"),
        (("3.7",), "3.75"),
        (("3.7",), "version 3.7.1"),
        (("8",), "L-08, at 08:00 on 2026-08-08, PX-8"),
        (("9",), "2026-06-19, 19"),
        (("4",), "-4"),
        (("55",), "K55"),
        (("1 PM",), "11 PM"),
        (("Odense",), ""),
    ],
)
def test_a_part_of_another_number_is_not_the_fact(fact, text):
    assert [fact] == missing_facts([fact], text)


@pytest.mark.parametrize(
    "text",
    [
        "<function_result>3.7</function_result>",
        '<function_result name="article_data">',
        "The answer is 3.7</tool_response>",
        '<function_call>\n{"name": "x"}',
        "<tool_call",
        "[TOOL_RESULTS] 3.7",
        "<|tool_response>3.7",
        "Observation: 3.7",
        "Fine.\nObservation: 3.7",
        "Action: article_data\nAction Input: {}",
        "<result>3.7</result>",
        "<tool_results>",
        "<function-response>3.7",
        "✿RESULT✿: 3.7",
    ],
)
def test_a_marker_of_a_call_or_a_result_is_markup(text):
    assert markup_in(["Fine.", text])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The total weight is 3.7 kg, as a result of 2 * 1.4 + 0.9.",
        "Action: water the tomatoes. My observation: they are dry.",
        "The function call failed, so 3 < 4 and 5 > 4.",
        "```\n08:00 start\n```",
        "Write <b>bold</b>, <details> or [a link](https://x.example).",
        "- [ ] Renew the passport",
        "[web]\ninclude = conf/web.ini",
    ],
)
def test_ordinary_text_has_no_markup(text):
    assert "" == markup_in([text])


def test_the_tags_around_results_of_every_dialect_are_markup():
    tags = {tag.strip() for dialect in DIALECTS.values() for tag in (dialect.result.open, dialect.result.close)} - {""}
    assert len(tags) > 20
    for tag in tags:
        assert markup_in([f"{tag} 3.7"]), tag
