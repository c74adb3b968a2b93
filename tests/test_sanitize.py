"""Text that is shown: no control characters reach a terminal, no text forges a line of the log."""

import io
import logging
import subprocess
import sys
import unicodedata

import pytest

from fcshim.sanitize import SanitizingFormatter, configure_logging, sanitize, sanitize_line

pytestmark = pytest.mark.security

ATTACKS = [
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;http://evil\x1b\\link",
    "\x9b31m",
    "\x9d52;c;x\x9c",
    "\x1bP+q544e\x1b\\",
    "a\rb",
    "a\x08\x08b",
    "\x7f",
    "\u202egpj.exe",
    "\u2066x\u2069",
    "\u200fx",
    "a\u2028b",
    "\U000e0041\U000e0042",
    "\ud800",
    "\x00",
    "\x0c",
    "\x0b",
    "\x85",
    "\ufeffx",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_control_character_is_left(attack):
    for shown in (sanitize(attack), sanitize_line(attack)):
        assert not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(each) for each in shown}
        assert not any(unicodedata.bidirectional(each) in {"RLO", "LRO", "RLI", "LRI", "PDI"} for each in shown)
        shown.encode()


@pytest.mark.parametrize("text", ["plain", "Grüße, 你好, שלום, 👩‍💻", "a\tb", "1 < 2 & 3 > 2", "e\u0301"])
def test_ordinary_text_is_unchanged(text):
    assert text == sanitize(text)
    assert text.replace("\t", " ") == sanitize_line(text)


def log_lines(log):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SanitizingFormatter("%(levelname)-7s %(message)s"))
    logger = logging.Logger("test")  # noqa: LOG001 - one that no other test configures
    logger.addHandler(handler)
    log(logger)
    return stream.getvalue().removesuffix("\n").split("\n")


def test_a_record_is_one_line_whatever_its_arguments():
    path = "/x\nINFO    200 GET /forged\r\nERROR   \x1b[31mred"

    assert ["INFO    /x␊INFO    200 GET /forged␍␊ERROR   ␛[31mred"] == log_lines(lambda log: log.info("%s", path))


def test_a_traceback_is_indented():
    def fail(log):
        try:
            raise ValueError("x\nERROR   forged\x1b[0m")  # noqa: TRY301 - the traceback is the subject
        except ValueError:
            log.exception("it failed")

    first, *others = log_lines(fail)

    assert "ERROR   it failed" == first
    assert all(line.startswith("    ") for line in others)
    assert "    ERROR   forged␛[0m" == others[-1]


def test_the_log_of_every_command_is_sanitized() -> None:
    """A warning that quotes an upstream; Python itself writes it as it is if nothing is configured."""
    program = (
        "import logging, sys; from fcshim.cli import entry; from fcshim.cli import dialects;"
        "dialects.run = lambda _: logging.getLogger('fcshim.dispatch').warning('a\\x1b[2J\\nERROR b') or 0;"
        "sys.exit(entry.main(['dialects']))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "WARNING a\u241b[2J\u240aERROR b\n" == found.stderr


def test_a_second_call_changes_level_and_layout_of_our_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.Logger("root")  # noqa: LOG001 - in the place of the real one
    monkeypatch.setattr(logging, "getLogger", lambda: root)
    configure_logging(logging.WARNING)
    configure_logging("INFO", "%(message)s")
    (own,) = root.handlers
    root.handlers = [other := logging.StreamHandler()]
    configure_logging(logging.ERROR)

    assert isinstance(own.formatter, SanitizingFormatter)
    assert other.formatter is None
    assert logging.INFO == root.level
