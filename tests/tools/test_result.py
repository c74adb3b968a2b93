"""Tool results. Requirement 14."""

import datetime as dt
from dataclasses import dataclass

import pytest

from fcshim.messages import MediaPart, TextPart
from fcshim.tools.result import ToolResult, failed, succeeded


@dataclass
class Weather:
    city: str
    days: tuple[dt.date, ...]


class Thing:
    def __str__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "null"),
        (3.5, "3.5"),
        ({"city": "Zürich"}, '{"city": "Zürich"}'),
        (Weather("Oslo", (dt.date(2026, 1, 2),)), '{"city": "Oslo", "days": ["2026-01-02"]}'),
        ({1: Thing()}, '{"1": "a thing"}'),
        (Thing(), '"a thing"'),
    ],
)
def test_a_string_stays_and_anything_else_becomes_json(value, text):
    assert ToolResult(content=(TextPart(text),)) == succeeded(value)


def test_a_value_without_a_json_form_becomes_its_str():
    value = []
    value.append(value)

    assert "[[...]]" == succeeded(value).text


def test_a_failure_carries_its_message():
    assert ToolResult(content=(TextPart("no such city"),), is_error=True) == failed("no such city")


def test_the_text_leaves_media_out():
    assert "ab" == ToolResult(content=(TextPart("a"), MediaPart("image/png"), TextPart("b"))).text


def test_all_content_has_a_text_form():
    """Requirement 21."""
    content = (TextPart("a"), MediaPart("image/png"), MediaPart("audio/wav"), MediaPart("application/pdf"))

    assert "a\n[Image: image/png]\n[Audio: audio/wav]\n[Media: application/pdf]" == ToolResult(content).flat_text
