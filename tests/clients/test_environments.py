"""How the environments of frameworks and agents are made, without making one."""

import sys

import pytest

from tests.clients import environments


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "CACHE", tmp_path)


def test_uv_makes_the_environments_of_python_packages_from_one_cache(tmp_path):
    made, filled = environments._commands("litellm", tmp_path / "litellm")

    assert str(tmp_path / "uv" / "bin" / "uv") == made[0] == filled[0]
    assert ["litellm[proxy]", "mcp"] == filled[-2:]
    assert str(tmp_path / "uv-cache") == environments._environment()["UV_CACHE_DIR"]
    assert str(tmp_path / "npm-cache") == environments._environment()["npm_config_cache"]


def test_an_installation_says_what_it_is_doing_and_a_second_one_does_nothing(monkeypatch, capsys):
    monkeypatch.setattr(environments, "_commands", lambda *_: iter([[sys.executable, "-c", ""]]))
    environments.main()
    first = capsys.readouterr().out.splitlines()
    environments.main()

    assert first[0].startswith("installing node, 1 of ")
    assert all(line.endswith(" s") for line in first)
    assert "" == capsys.readouterr().out


def test_a_failed_installation_is_named(monkeypatch):
    monkeypatch.setattr(environments, "_commands", lambda *_: iter([[sys.executable, "-c", "raise SystemExit(3)"]]))

    with pytest.raises(SystemExit, match="node could not be installed"):
        environments.main()
