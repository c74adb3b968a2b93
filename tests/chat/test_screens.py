"""The pictures of the documentation: text stays text, and colours are those of the terminal."""

import re
from xml.etree import ElementTree as ET

from tests.chat.screens import IMAGES, emulate, render_svg

_OUTPUT = (
    'before\r\n› Hi <b> & "you"\r\n\x1b[1;31mred\x1b[0m  \x1b[2mdim\x1b[0m 世x\r\n   \x1b[38;5;2mgreen\x1b[0m\r\n'
).encode()


def texts(picture):
    found = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return [(each.text, each.get("class"), float(each.get("x"))) for each in found]


def test_a_screen_becomes_text_with_classes_at_its_places():
    picture = render_svg(emulate(_OUTPUT, 40, 10), first="›")

    assert [
        ('› Hi <b> & "you"', "default", 14.0),
        ("red", "red bold", 14.0),
        ("dim", "brightblack", 56.0),
        ("世x", "default", 89.6),
        ("green", "default", 39.2),
    ] == texts(picture)
    assert "prefers-color-scheme:dark" in picture


def test_the_pictures_of_the_documentation_are_there_and_named():
    page = (IMAGES.parent / "chat.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\(images/(chat-[a-z-]+\.svg)\)", page))

    assert named == {file.name for file in IMAGES.glob("chat-*.svg")}
    assert all(texts((IMAGES / name).read_text(encoding="utf-8")) for name in named)
