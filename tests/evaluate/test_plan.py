"""What is to be run."""

import pytest

from fcshim.client import Client
from fcshim.config import Config, ModelOverrides, Secret
from fcshim.errors import ConfigError
from fcshim.evaluate.plan import EvalPlan

SETTINGS = Config(upstream="http://127.0.0.1:9", upstream_key=Secret("sk-secret"), max_tools=7)


def test_terms_say_everything_but_the_key():
    terms = EvalPlan(config=SETTINGS, model="m").terms()

    assert ("http://127.0.0.1:9", "m", 7, 0) == tuple(
        terms[name] for name in ("upstream", "model", "max_tools", "temperature")
    )
    assert "sk-secret" not in repr(terms)


def test_a_password_in_the_address_is_no_term():
    terms = EvalPlan(config=Config(upstream="http://me:pa55@127.0.0.1:9/v1"), model="m").terms()

    assert "http://127.0.0.1:9/v1" == terms["upstream"]


def test_what_only_chooses_results_is_no_term():
    one = EvalPlan(config=SETTINGS, model="m")
    other = EvalPlan(config=SETTINGS, model="m", dialects=("hermes",), categories=("simple",), limit=3, concurrency=9)

    assert one.terms() == other.terms()


@pytest.mark.parametrize(
    "change", [{"model": "n"}, {"sampling": {"temperature": 1}}, {"config": Config(upstream="http://127.0.0.1:9")}]
)
def test_what_changes_results_is_a_term(change):
    plan = {"config": SETTINGS, "model": "m"}

    assert EvalPlan(**plan).terms() != EvalPlan(**{**plan, **change}).terms()


def test_the_settings_of_the_model_hold():
    special = Config(models={"qwen*": ModelOverrides(dialect="hermes", tools_style="signature")})

    assert ("hermes",) == EvalPlan(config=special, model="qwen3").labels()
    assert "signature" == EvalPlan(config=special, model="qwen3").terms()["tools_style"]
    assert ("function_call",) == EvalPlan(config=special, model="other").labels()


def test_dialects_are_asked_once_each_in_their_order():
    assert ("native", "hermes") == EvalPlan(config=SETTINGS, dialects=("native", "hermes", "native")).labels()
    assert ("native",) == EvalPlan(config=Config(tools="native")).labels()


def test_auto_is_told_by_the_dialect_that_it_stands_for():
    assert ("hermes", "native") == EvalPlan(
        config=SETTINGS, model="qwen3", dialects=("auto", "hermes", "native")
    ).labels()
    assert ("auto",) == EvalPlan(config=Config(tools="auto"), model="qwen3").labels()


@pytest.mark.parametrize("dialect", ["auto", "native", "hermes"])
async def test_every_setting_of_a_model_reaches_the_client(dialect):
    async with EvalPlan(config=SETTINGS, model="m").client(dialect) as client:
        assert isinstance(client, Client)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dialects": ("hermes", "klingon")}, "klingon"),
        ({"categories": ("simple", "hard")}, "there is no category 'hard'"),
        ({"config": Config(tools="native"), "dialects": ("hermes",)}, "native in every dialect"),
    ],
)
def test_mistakes_are_found_before_anything_is_asked(fields, message):
    with pytest.raises(ConfigError, match=message):
        EvalPlan(**{"config": SETTINGS, **fields}).check()
