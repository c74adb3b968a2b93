"""What the tests of permission rules share."""

import pytest

from fcshim.tools.commands import syntax


@pytest.fixture(params=["parsed", "plain"])
def parser(request, monkeypatch):
    """With the parser of Bash, and without it."""
    if request.param == "plain":
        monkeypatch.setattr(syntax, "bash_parser", lambda: None)
    else:
        pytest.importorskip("tree_sitter_bash")
