"""What publishes a version: the workflow, the project's metadata, the changelog."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".ci" / "publish.yml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_only_the_tag_of_the_version_is_published() -> None:
    (check,) = [step["run"] for step in WORKFLOW["jobs"]["build"]["steps"] if "GITHUB_REF_NAME" in step.get("run", "")]
    codes = {
        tag: subprocess.run(
            ["bash", "-c", check], cwd=ROOT, env={**os.environ, "GITHUB_REF_NAME": tag}, check=False
        ).returncode
        for tag in (f"v{PROJECT['version']}", "v0.0.9", PROJECT["version"])
    }

    assert [0, 1, 1] == list(codes.values())


def test_what_is_published_was_checked_and_is_signed_by_the_workflow() -> None:
    build, publish = WORKFLOW["jobs"]["build"]["steps"], WORKFLOW["jobs"]["publish"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (target,) = re.findall(r"^release: (.*)$", makefile, re.MULTILINE)

    assert any(step.get("run") == "make release" for step in build)
    assert {"check", "docs", "test"} <= set(target.split())
    assert {"id-token": "write"} == publish["permissions"]
    assert not re.search(r"secrets\.|password", str(WORKFLOW))


def test_one_line_sets_the_addresses_and_the_changelog_is_short() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert 1 == sum(line.startswith("urls = ") for line in lines)
    assert {"Homepage", "Documentation", "Changelog"} == set(PROJECT["urls"])
    assert len(changelog.splitlines()) <= 40
    assert len(re.findall(r"^- ", changelog, re.MULTILINE)) <= 20
