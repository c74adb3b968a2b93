"""Finding all mistakes in a file of settings."""

from pathlib import Path

import pytest

from fcshim.config import check_file
from fcshim.errors import ConfigError


def mistakes(folder, text):
    """Return each mistake without the name of its file."""
    file = folder / "fcshim.toml"
    file.write_text(text, encoding="utf-8")
    return [line.removeprefix(f"{file}:") for line in check_file(file, {"LOCAL_KEY": "k"})]


def test_a_valid_file_has_none(tmp_path):
    text = 'port = 1\nupstream = "http://h"\n[models."q*"]\ntools = "native"\n[models.b]\nupstream_model = "q"\n'

    assert [] == mistakes(tmp_path, text)


SECTIONS = '[upstreams.local]\nurl = "http://h"\nkey = "env:LOCAL_KEY"\n\n[upstreams.spare]\nurl = "http://i"\n'


def test_several_upstreams_are_valid(tmp_path):
    text = SECTIONS + '[models."q*"]\nupstream = ["local", "spare"]\n[models.fast]\nupstream = "spare"\n'

    assert [] == mistakes(tmp_path, text)


def test_mistakes_in_sections_of_upstreams_have_their_lines(tmp_path):
    found = mistakes(tmp_path, SECTIONS.replace("LOCAL_KEY", "OTHER") + '[models.fast]\nupstream = "none"\n')

    assert [
        "1: [upstreams.local]: key: expected the environment variable 'OTHER' to be set",
        '8: [models."fast"]: upstream: there is no section [upstreams.none]. Known are: local, spare',
    ] == found


def test_an_upstream_beside_sections_is_a_mistake_of_the_file(tmp_path):
    (found,) = mistakes(tmp_path, 'upstream = "http://h"\n' + SECTIONS)

    assert "expected it in the sections [upstreams.NAME]" in found


def test_every_mistake_has_its_line_and_its_field(tmp_path):
    found = mistakes(
        tmp_path,
        'prot = 1\n\n# port = 0\nport = "x"\nallowed_hosts = [\n  "a",\n  3,\n]\nupstream_key = ""\ndialect = "nope"\n'
        'upstream = "127.0.0.1"\nping = -1\n'
        '[models."q*"]\nmax_retries = 9\n\nfoo = 1\nopen_reasoning_tag = "x"\nupstream_model = ""\n',
    )
    expected = [
        "1: prot: there is no setting 'prot', did you mean 'port'?",
        "4: port: expected a whole number from 0 up to 65535, got 'x'",
        "5: allowed_hosts: expected a list of strings, got ['a', 3]",
        "9: upstream_key: expected a key",
        "10: dialect: unknown dialect 'nope'",
        "11: upstream: expected a URL such as",
        "12: ping: expected a number from 0 up to 86400, got -1",
        """14: [models."q*"]: max_retries: expected a whole number from 0 up to 5, got 9""",
        """16: [models."q*"]: foo: there is no setting 'foo'""",
        """17: [models."q*"]: open_reasoning_tag: unknown reasoning tag 'x'""",
        """18: [models."q*"]: upstream_model: """,
    ]

    assert len(expected) == len(found)
    for wanted, line in zip(expected, found, strict=True):
        assert line.startswith(wanted)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('open_reasoning_tag = """\nport = 1\n"""\nport = "x"\n', 4),
        ("models.a.max_retries = 1\nmodels.a.max_tools = -1\n", 2),
        ("[models]\na = {max_retries = 9}\n", 2),
        ('[models."[b]"]\n"max_retries" = 9 # = 1', 2),
        ("models = 3", 1),
        ("[models]\n\na = 3", 3),
        ("port\\\n = 3", None),
    ],
)
def test_lines_are_those_of_the_statement_however_it_is_written(text, line, tmp_path):
    found = mistakes(tmp_path, text)

    if line is None:
        assert "is not TOML" in found[0]
        assert "at line 1" in found[0]
    else:
        assert f"{line}:" == found[-1].partition(" ")[0]


def test_secrets_are_not_shown(tmp_path):
    assert "hunter2" not in "".join(mistakes(tmp_path, 'api_keys = ["hunter2\\u00e9"]\nupstream_key = ["hunter2"]\n'))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        check_file(tmp_path / "missing.toml", {})


@pytest.mark.security
@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 50_000, str(2**64), "[1, {a = 0x" + "f" * 50_000 + "}]"])
def test_a_number_beyond_64_bits_is_a_mistake(tmp_path, number):
    (found,) = check_file(write(tmp_path, f"max_retries = {number}\n"), {})

    assert "is not TOML: " in found


@pytest.mark.security
def test_a_file_without_end_is_an_error():
    with pytest.raises(ConfigError) as caught:
        check_file(Path("/dev/zero"), {})

    assert "expected at most 1048576 bytes" in caught.value.message


@pytest.mark.security
def test_of_very_many_mistakes_the_first_hundred_are_listed(tmp_path):
    file = write(tmp_path, "".join(f"a{number:05} = 1\n" for number in range(5_000)))

    assert 100 == len(check_file(file, {}))


def write(folder, text):
    file = folder / "large.toml"
    file.write_text(text)
    return file
