"""The `response_template` in a `tokenizer_config.json` is a dialect."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.constraint import dialect_note
from fcshim.errors import ConfigError
from fcshim.parse.response_template.shapes import template_dialect
from fcshim.parse.response_template.template import decode_template
from fcshim.prompt.dialect_check import check_dialect
from fcshim.prompt.dialect_folder import find_dialect, load_dialect
from fcshim.prompt.render import render_samples
from tests.examples import examples
from tests.parse.response_template.test_results import TEMPLATES
from tests.parse.test_round_trip import check_round_trip, turns

REJECTED = {"xml_merge", "xml_types", "json_delims", "kv_lines", "kv_equals", "constant_name", "xml_int_parser"}
"""Templates of calls that could not be read while they stream."""
LOADED = [name for name in TEMPLATES if name not in REJECTED]
STREAMED = [name for name in LOADED if name.startswith(("json", "named", "gemma", "content"))]
CALL = {"open": "<call>", "close": "</call>", "content": "json"}


def write(folder: Path, template: Any, key: str = "response_template") -> Path:
    """Write a model's folder with a template."""
    folder.mkdir(exist_ok=True)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": "X", key: template}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", LOADED)
def test_a_template_is_a_dialect(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, TEMPLATES[name])
    dialect = find_dialect(str(path))

    assert name == dialect.name
    assert dialect is load_dialect(path.parent)
    assert render_samples(dialect)


@pytest.mark.parametrize("name", sorted(REJECTED))
def test_a_template_of_another_shape_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"fields\.tool_calls: expected (?:calls in JSON|a transform with the place)"):
        find_dialect(str(write(tmp_path / name, TEMPLATES[name])))


@pytest.mark.security
@pytest.mark.parametrize(
    ("field", "said"),
    [
        (CALL | {"open": [f"<{number}>" for number in range(101)]}, "fields.calls: open: expected at most 100 texts"),
        (CALL | {"close": ["</call>"] * 101}, "fields.calls: close: expected at most 100 texts"),
        ({"open_pattern": "a" * 10_001, "close": "b", "content": "json"}, "at most 10000 characters"),
        (CALL | {"open": "<\ud800>"}, "surrogates not allowed"),
    ],
)
def test_a_template_that_takes_long_or_is_not_text_is_rejected(tmp_path: Path, field: Any, said: str) -> None:
    template = {"start_anchor": "x", "fields": {"calls": field}}
    with pytest.raises(ConfigError) as caught:
        load_dialect(write(tmp_path / "hostile", template))

    assert said in caught.value.message


@pytest.mark.security
def test_a_file_without_end_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError) as caught:
        load_dialect(tmp_path)

    assert "expected at most 16777216 bytes" in caught.value.message


@pytest.mark.parametrize("name", STREAMED)
def test_json_streams_and_is_constrained(name: str) -> None:
    dialect = template_dialect(name, decode_template(TEMPLATES[name]))

    assert "" == dialect.waits
    assert "" == dialect_note(dialect)


@functools.cache
def dialect_of(name: str) -> Any:
    dialect = template_dialect(name, decode_template(TEMPLATES[name]))
    check_dialect(dialect)
    return dialect


@pytest.mark.parametrize(
    "name", ["json_tags", "json_group_before", "named_json_kimi", "text_arguments", "xml_qwen", "gemma"]
)
@examples(5)
@given(data=st.data())
def test_the_dialect_reads_any_call_that_it_writes(name: str, data: st.DataObject) -> None:
    check_round_trip(dialect_of(name), *data.draw(turns()), seed=0)


def template(**call: Any) -> dict[str, Any]:
    """Return a template with one field of calls."""
    return {"start_anchor": "<|a|>", "fields": {"tool_calls": {**CALL, **call}, "content": {}}}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "Expected `object`, got `array`"),
        ({**template(), "version": 2}, "version"),
        ({**template(), "x_regex": ""}, "unknown field `x_regex`"),
        (template(opn="<a>"), "unknown field `opn`"),
        (template(content="yaml"), "yaml"),
        ({"fields": {"tool_calls": CALL}}, "expected start_anchor or start_anchor_pattern"),
        ({"start_anchor": "a", "fields": {"content": {}}}, "expected fields of content, tool_calls"),
        ({"start_anchor": "a", "fields": {"tool_calls": CALL, "title": {"open": "<t>"}}}, "not tool_calls, title"),
        ({"start_anchor": "a", "fields": {"tool_calls": CALL, "content": {}, "thinking": {}}}, "at most one field"),
        ({"start_anchor": "a", "fields": {"tool_calls": {"content": "json"}}}, "expected open or open_pattern"),
        (template(open=[]), "expected texts that are not empty"),
        (template(open_pattern="<a>"), "a text or a pattern, not both"),
        (template(join=","), "join needs repeats"),
        (template(transform_each=True), "transform_each needs a transform"),
        (template(open=None, open_pattern=r"<(?P<n>\w+)>"), "named groups need a transform"),
        (template(transform={"name": "a{content}", "arguments": "{content}"}), "either one {placeholder} or has none"),
        (template(transform={"name": "{content.name}"}), "placeholders of a call's name and arguments"),
        (template(open=None, open_pattern=r"(?<=a)<b>"), r"lookahead are supported"),
        (template(open=None, open_pattern=r"\w+:"), "begins with fixed text"),
        (template(open=None, open_pattern=r"<call \w+>"), ""),
        (template(close=None, close_pattern=r"</\w+>"), "a close_pattern of fixed texts"),
        (template(content="xml-inline"), "tag_pattern"),
        (template(content="xml-inline", content_args={"tag_pattern": "<(.)>"}), "the group `key`"),
        (
            {"start_anchor": "a", "fields": {"tool_calls": CALL, "thinking": {"open": "<t>"}}},
            "open and close reasoning",
        ),
    ],
)
def test_an_invalid_template_is_reported_with_its_file(tmp_path: Path, raw: Any, message: str) -> None:
    path = write(tmp_path / "model", raw)

    if not message:
        assert load_dialect(path)
        return
    with pytest.raises(ConfigError) as error:
        load_dialect(path)

    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[]", "expected the key 'response_template'"), ('{"a": 1}', "expected the key")],
)
def test_a_file_without_a_template_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=message):
        find_dialect(str(path))


def test_the_older_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="response_schema is an older format"):
        load_dialect(write(tmp_path / "model", {}, key="response_schema"))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"none\.json: No such file"):
        find_dialect("none.json")
