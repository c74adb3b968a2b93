"""Skills. Requirement 43."""

import hashlib
import json

import pytest

from fcshim.errors import ToolError
from fcshim.tools.builtin import Skills
from tests.tools.builtin.tool_calls import error_text, result_text

TEXT = "---\nname: review\ndescription: 'How to review'\n---\nLook at it.\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "review").mkdir()
    (tmp_path / "review" / "SKILL.md").write_text(TEXT)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "SKILL.md").write_text("Just do it.")
    (tmp_path / "empty").mkdir()
    return tmp_path


def offering(folder, **changes):
    """Return the tools with an index of one skill, and the texts by their addresses."""
    offer = {
        "id": "write",
        "name": "Writing",
        "description": "How to write",
        "url": "mem:write",
        "sha256": hashlib.sha256(TEXT.encode()).hexdigest(),
    }
    texts = {"mem:index": json.dumps({"skills": [offer | changes]}), "mem:write": TEXT}

    async def load(url):
        if url not in texts:
            raise ToolError(f"{url} answered 404.")
        return texts[url]

    return Skills(folder, index="mem:index", load=load).tools()


async def test_skills_are_listed_and_read(folder):
    tools = Skills(folder).tools()

    assert ["list_skills", "read_skill"] == [tool.definition.name for tool in tools]
    assert "bare: \nreview: How to review" == await result_text(tools, "list_skills")
    assert TEXT == await result_text(tools, "read_skill", name="review")
    assert "There is no skill x. There are: bare, review." == await error_text(tools, "read_skill", name="x")
    assert await error_text(tools, "read_skill", name="../review")


async def test_a_folder_without_skills_is_no_error(tmp_path):
    assert "There are no skills." == await result_text(Skills(tmp_path / "none").tools(), "list_skills")


async def test_a_skill_is_found_and_installed(folder):
    tools = offering(folder)

    assert "write: How to write" == await result_text(tools, "skillhub_search", query="how WRITE")
    assert "Nothing was found." == await result_text(tools, "skillhub_search", query="paint")
    assert "Installed write." == await result_text(tools, "skillhub_install", skillId="write")
    assert TEXT == (folder / "write" / "SKILL.md").read_text()


async def test_installing_needs_approval_and_reading_does_not(folder):
    asking = {tool.definition.name: tool.traits.sensitivity for tool in offering(folder)}

    assert {
        "list_skills": "safe",
        "read_skill": "safe",
        "skillhub_search": "safe",
        "skillhub_install": "ask",
    } == asking


async def test_a_skill_with_another_digest_is_not_installed(folder):
    tools = offering(folder, sha256="0" * 64)

    assert "digest differs" in await error_text(tools, "skillhub_install", skillId="write")
    assert not (folder / "write").exists()


@pytest.mark.parametrize("changes", [{"id": "../evil"}, {"id": ""}, {"id": "A b"}, {"url": 5}, {"sha256": None}])
async def test_an_invalid_index_is_an_error(folder, changes):
    assert "index of skills cannot be read" in await error_text(
        offering(folder, **changes), "skillhub_search", query=""
    )


async def test_a_failed_download_is_an_error(folder):
    assert "404" in await error_text(offering(folder, url="mem:gone"), "skillhub_install", skillId="write")
    assert "no skill other to install" in await error_text(offering(folder), "skillhub_install", skillId="other")
