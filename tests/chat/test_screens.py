"""The pictures of the documentation: text stays text, and colours are those of the terminal."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.chat.pseudo_terminal import emulate
from tests.chat.screens import render_svg

DOCS = Path(__file__).parents[2] / "docs"

_OUTPUT = (
    'before\r\n› Hi <b> & "you"\r\n\x1b[1;31mred\x1b[0m  \x1b[2mdim\x1b[0m 世x\r\n   \x1b[38;5;2mgreen\x1b[0m\r\n'
).encode()


def texts(picture):
    found = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return [(each.text, each.get("class"), float(each.get("x"))) for each in found]


def test_a_screen_becomes_text_with_classes_at_its_places():
    picture = render_svg(emulate(_OUTPUT, 40, 10))

    assert [
        ('› Hi <b> & "you"', "default", 14.0),
        ("red", "red bold", 14.0),
        ("dim", "brightblack", 56.0),
        ("世x", "default", 89.6),
        ("green", "default", 39.2),
    ] == texts(picture)
    assert "prefers-color-scheme:dark" in picture


def test_the_pictures_of_the_documentation_are_there_and_named():
    page = (DOCS / "chat.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\(images/chat/([a-z-]+\.svg)\)", page))

    assert named
    assert all(texts((DOCS / "images" / "chat" / name).read_text(encoding="utf-8")) for name in named)
