"""The folder in which the built-in tools work. Requirement 40."""

import pytest

from fcshim.errors import ConfigError, ToolError
from fcshim.tools.builtin import Workspace


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "work-other").mkdir()
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder-link").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    return root


@pytest.mark.parametrize(
    "path",
    ["../secret", "sub/../../secret", "/etc/passwd", "link", "folder-link/secret", "../work-other", "~", "\0", "loop"],
)
def test_paths_outside_are_refused(root, path):
    with pytest.raises(ToolError):
        Workspace(root).resolve(path)


def test_paths_inside_are_resolved(root):
    workspace = Workspace(root)

    assert root / "sub" == workspace.resolve("sub/../sub/")
    assert root / "sub" == workspace.resolve(str(root / "sub"))
    assert "sub" == workspace.display_path(root / "sub")


def test_the_operator_may_allow_paths_outside(root):
    assert (root.parent / "secret").read_text() == Workspace(root, restrict=False).existing_file(
        "../secret"
    ).read_text()


def test_a_workspace_must_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for path in ("nothing", "file"):
        with pytest.raises(ConfigError, match="folder"):
            Workspace(tmp_path / path)
