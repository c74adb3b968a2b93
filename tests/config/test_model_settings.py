"""A setting of a model is declared once; what repeats it for type checkers agrees, and something reads it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

import fcshim
from fcshim.config import Config, ModelConfig, ModelOptions, ModelOverrides, ModelSettings, load_config, settings
from fcshim.errors import ConfigError

SOURCE = Path(fcshim.__file__).parent
SETTINGS = {setting.name for setting in settings()}
OF_MODELS = set(ModelSettings.__struct_fields__)


def declared(owner: type) -> dict[str, Any]:
    """Return the types of fields, without what is annotated."""
    return {name: each for name, each in get_type_hints(owner).items() if not name.startswith("_")}


def test_the_options_of_the_client_are_the_settings_of_a_model() -> None:
    """For a new field of `ModelSettings`, add a line to `ModelOptions`: its name and its type."""
    expected = {name: each for name, each in declared(ModelSettings).items() if name != "dialect"}

    assert expected == declared(ModelOptions)


@pytest.mark.parametrize("name", sorted(OF_MODELS))
def test_a_row_of_a_model_replaces_the_general_setting(name: str) -> None:
    field = next(each for each in msgspec.structs.fields(ModelSettings) if each.name == name)
    other = another_value(get_type_hints(ModelSettings)[name], field.default)
    config = Config(models={"m": ModelOverrides(settings={name: other})})

    assert (other, field.default) == (getattr(config.for_model("m"), name), getattr(config.for_model("n"), name))
    assert other == getattr(Config(**{name: other}).for_model("n"), name)


def another_value(kind: Any, default: Any) -> Any:
    if choices := [each for each in get_args(kind) if isinstance(each, str) and each != default]:
        return choices[0]
    return {bool: not default, int: 3}.get(kind, "other")


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        *(("dialect", "prompt"), ("prompt_style", "prompt"), ("tools_style", "prompt"), ("arguments", "prompt")),
        *(("max_tools", "prompt"), ("prompt_budget", "prompt")),
        *(("profile", "auto"), ("rescue", "auto"), ("reasoning", "auto"), ("max_retries", "auto")),
    ],
)
def test_a_setting_that_only_a_prompt_has_asks_for_the_prompt(name: str, tools: str) -> None:
    kind, default = get_type_hints(ModelSettings)[name], getattr(ModelSettings(), name)

    assert tools == ModelSettings(**{name: another_value(kind, default)}).merged_with().tools


def readers(source: str) -> Iterator[str]:
    """Yield the names of the settings that a module reads: as `config.NAME`, or of a model as `model.NAME`.

    These two words are the convention for every variable and attribute that holds settings.
    """
    kinds = {"config": SETTINGS - OF_MODELS, "model": OF_MODELS}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if node.attr in kinds.get(owner.lstrip("_"), ()):
                yield node.attr


def test_every_setting_is_read_by_something() -> None:
    """A setting that nothing reads is a flag without effect."""
    files = [file for file in SOURCE.rglob("*.py") if file.parent.name != "config"]
    sources = [file.read_text(encoding="utf-8") for file in files]
    read = {name for source in sources if "Config" in source or "for_model" in source for name in readers(source)}

    assert set() == SETTINGS - read


def test_a_reader_is_told_from_other_attributes() -> None:
    assert ["port", "ping", "rescue"] == list(readers("config.port, self._config.ping, model.rescue"))
    assert [] == list(readers("address.port, config.rescue, model.port, self.ping, options.rescue, config.name"))
    assert [] == list(readers("config.port = 1"))


def test_a_row_is_checked_with_the_general_settings(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('open_reasoning_tag = "<|think:start|>"\ndialect = "solar_open2"\n[models.m]\nrescue = false\n')

    assert "<|think:start|>" == load_config(file=file).for_model("m").open_reasoning_tag

    file.write_text('open_reasoning_tag = "<|think:start|>"\ndialect = "solar_open2"\n[models.m]\ndialect = "glm"\n')
    with pytest.raises(ConfigError, match=r'\[models."m"\]: unknown reasoning tag'):
        load_config(file=file)


def test_a_model_has_the_settings_and_what_is_known_of_it() -> None:
    assert {"upstream_model", "real_name", "dialect_reason"} == set(ModelConfig.__struct_fields__) - OF_MODELS
    assert OF_MODELS <= set(Config.__struct_fields__)
