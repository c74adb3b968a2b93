"""A dialect is loaded only if its parser reads what its templates write."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.errors import ConfigError
from fcshim.parse.dialect import CallMarkers, Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tag, Tags
from fcshim.prompt.dialect_check import check_dialect
from fcshim.prompt.dialect_folder import load_dialect
from fcshim.prompt.escape import escaper_for, own_markers
from tests.examples import examples
from tests.parse.test_round_trip import check_round_trip, turns
from tests.prompt.custom_dialects import BROKEN, SOUND, make_folder


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_dialect_is_loaded(name: str, tmp_path: Path) -> None:
    assert name == load_dialect(make_folder(tmp_path / name, SOUND[name])).name


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_dialect_is_rejected_with_the_difference(name: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / name, BROKEN[name])

    with pytest.raises(ConfigError) as error:
        load_dialect(folder)

    assert BROKEN[name]["error"] in str(error.value)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_every_bundled_dialect_would_be_loaded_as_a_custom_one(dialect: Dialect) -> None:
    check_dialect(replace(dialect, name="mine", templates=dialect.templates or dialect.name))


def test_a_missing_template_is_a_config_error(tmp_path: Path) -> None:
    dialect = replace(DIALECTS["hermes"], name="mine", templates=str(tmp_path / "mine"))

    with pytest.raises(ConfigError, match=r"mine: the template 'call\.jinja' is missing"):
        check_dialect(dialect)


@pytest.fixture(scope="module", params=SOUND)
def sound_dialect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    """Each sound dialect, loaded once."""
    return load_dialect(make_folder(tmp_path_factory.mktemp("sound") / request.param, SOUND[request.param]))


@examples(4)
@given(data=st.data())
def test_a_sound_dialect_reads_any_call_that_it_writes(sound_dialect: Dialect, data: st.DataObject) -> None:
    check_round_trip(sound_dialect, *data.draw(turns()), seed=0)


@examples(10)
@given(data=st.data())
def test_escaping_for_a_sound_dialect_is_reversible(sound_dialect: Dialect, data: st.DataObject) -> None:
    pieces = st.sampled_from([*own_markers(sound_dialect), " ", "_", "x", "\n"])
    text = "".join(data.draw(st.lists(pieces, max_size=8)))
    escaper = escaper_for(sound_dialect)

    assert text == escaper.unescape(escaper.escape(text))


MARKERS = st.sampled_from(
    ["<a>", "</a>", "<b ", "{", "}", "\n", "\n\n", " ", "|", "::", "word", "[", "]", '"', "<", ">"]
)
TAGS = st.builds(
    Tags,
    call=st.builds(Tag, MARKERS | st.just(""), MARKERS | st.just("")),
    call_close=MARKERS,
    parameter=st.builds(Tag, MARKERS, MARKERS),
    parameter_close=MARKERS,
    value_open=MARKERS | st.just(""),
    gap=st.sampled_from(["", "\n"]),
    lines=st.booleans(),
    several=st.booleans(),
)
BODIES = st.tuples(TAGS.map(TaggedCalls), st.just("tagged")) | st.sampled_from(
    [(JsonShape(), "hermes"), (JsonShape(keyed=True), "json_array"), (PythonCalls(), "olmo3")]
)


@examples(40)
@given(body=BODIES, open_=MARKERS, close=MARKERS | st.just(""), at_line_start=st.booleans())
@example(
    body=(TaggedCalls(Tags(Tag("<f "), "</f>", Tag("<p "), "\n")), "tagged"),
    open_="<a>",
    close="</a>",
    at_line_start=False,
)
def test_nothing_but_a_config_error_comes_of_any_markers(
    body: tuple[TaggedCalls, str], open_: str, close: str, at_line_start: bool
) -> None:
    call = CallMarkers(open_, close, at_line_start=at_line_start)
    dialect = Dialect("mine", "", body[0], call, templates=body[1])
    try:
        check_dialect(dialect)
    except ConfigError as error:
        assert "does not read" in str(error)  # noqa: PT017 - either outcome is right
