"""A summary as a bar chart."""

import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from fcshim.errors import ConfigError
from fcshim.evaluate.plot import check_plot, write_plot
from fcshim.evaluate.summary import summarise
from tests.evaluate.results import result

RESULTS = [
    result("simple-001"),
    result("simple-002", "wrong_tool"),
    result("parallel-001"),
    result("simple-001", dialect="native"),
]


def test_the_suffix_decides_the_format(tmp_path):
    for name in ("rates.svg", "rates.png"):
        write_plot(summarise(RESULTS), tmp_path / name, title="a model")

    assert "{http://www.w3.org/2000/svg}svg" == ET.parse(tmp_path / "rates.svg").getroot().tag
    assert b"\x89PNG" == (tmp_path / "rates.png").read_bytes()[:4]


def test_every_category_and_dialect_is_in_the_chart(tmp_path):
    """matplotlib writes texts as outlines, each after a comment with the text."""
    path = tmp_path / "rates.svg"
    write_plot(summarise(RESULTS), path, title="a model")
    text = path.read_text()

    assert [] == [
        said for said in ("a model", "simple", "parallel", "all", "hermes", "native") if f"<!-- {said} -->" not in text
    ]


@pytest.mark.parametrize(("name", "message"), [("x.pdf", r"\.svg or \.png"), ("none/x.svg", "there is no folder")])
def test_an_impossible_path_is_rejected_before_drawing(tmp_path, name, message):
    with pytest.raises(ConfigError, match=message):
        check_plot(tmp_path / name)


@pytest.mark.engine
def test_without_matplotlib_the_error_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from fcshim.cli import main; sys.exit(main(['eval', 'http://127.0.0.1:9', '--plot', 'x.svg']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (2, "fcshim: a plot needs matplotlib: pip install 'fcshim[plot]'\n") == (done.returncode, done.stderr)
