"""The plan of an evaluation."""

import pytest

from fcshim.client import Client
from fcshim.config import Config, ModelOverrides, Secret
from fcshim.errors import ConfigError
from fcshim.evaluate.plan import EvalPlan

SETTINGS = Config(upstream="http://127.0.0.1:9", upstream_key=Secret("sk-secret"), max_tools=7)


def test_terms_have_the_settings_without_the_key():
    terms = EvalPlan(config=SETTINGS, model="m").terms()

    assert ("http://127.0.0.1:9", "m", 7, 0) == tuple(
        terms[name] for name in ("upstream", "model", "max_tools", "temperature")
    )
    assert "sk-secret" not in repr(terms)


def test_terms_have_no_password():
    terms = EvalPlan(config=Config(upstream="http://me:pa55@127.0.0.1:9/v1"), model="m").terms()

    assert "http://127.0.0.1:9/v1" == terms["upstream"]


def test_options_that_only_select_results_are_not_in_the_terms():
    one = EvalPlan(config=SETTINGS, model="m")
    other = EvalPlan(config=SETTINGS, model="m", dialects=("hermes",), categories=("simple",), limit=3, concurrency=9)

    assert one.terms() == other.terms()


def test_results_of_bfcl_are_not_mixed_with_those_of_the_suite(tmp_path):
    suite, bfcl = EvalPlan(config=SETTINGS), EvalPlan(config=SETTINGS, bfcl=tmp_path)

    assert suite.terms()["suite"] != bfcl.terms()["suite"]


@pytest.mark.parametrize(
    "change", [{"model": "n"}, {"sampling": {"temperature": 1}}, {"config": Config(upstream="http://127.0.0.1:9")}]
)
def test_options_that_change_results_are_in_the_terms(change):
    plan = {"config": SETTINGS, "model": "m"}

    assert EvalPlan(**plan).terms() != EvalPlan(**{**plan, **change}).terms()


def test_the_settings_of_the_model_apply():
    special = Config(models={"qwen*": ModelOverrides(settings={"dialect": "hermes", "tools_style": "signature"})})

    assert ("hermes",) == EvalPlan(config=special, model="qwen3").labels()
    assert "signature" == EvalPlan(config=special, model="qwen3").terms()["tools_style"]
    assert ("auto",) == EvalPlan(config=special, model="other").labels()


def test_dialects_keep_their_order_without_duplicates():
    assert ("native", "hermes") == EvalPlan(config=SETTINGS, dialects=("native", "hermes", "native")).labels()
    assert ("native",) == EvalPlan(config=Config(tools="native")).labels()


def test_auto_is_replaced_by_the_dialect_that_it_selects():
    assert ("hermes", "native") == EvalPlan(
        config=SETTINGS, model="qwen3", dialects=("auto", "hermes", "native")
    ).labels()
    assert ("auto",) == EvalPlan(config=Config(), model="qwen3").labels()
    assert ("hermes",) == EvalPlan(config=Config(tools="prompt"), model="qwen3").labels()


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
def test_mistakes_are_found_before_any_request(fields, message):
    with pytest.raises(ConfigError, match=message):
        EvalPlan(**{"config": SETTINGS, **fields}).check()
