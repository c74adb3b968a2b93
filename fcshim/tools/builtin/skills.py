"""Skills: texts that tell a model how to do something, in folders with a `SKILL.md`.

Rule: a skill is text and is never executed; it is installed by its id in the operator's index, if its digest matches.

A skill's file begins with its name and description between lines of `---`. An index is a JSON file: `{"skills": [{"id",
"name", "description", "url", "sha256"}]}`, where `url` is the address of the `SKILL.md`.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from fcshim.errors import ToolError
from fcshim.files import read_limited
from fcshim.tools.base import Traits
from fcshim.tools.function import FunctionTool

_SKILL_FILE = "SKILL.md"
_SIZE_LIMIT = 256 * 1024
"""Bytes of a skill; a model reads it whole."""
_FIELD = re.compile(r"(name|description):[ \t]*(.*)")
_MAX_SKILLS = 500

LoadText: TypeAlias = Callable[[str], Awaitable[str]]
"""Loads the text at a URL."""


class Skill(msgspec.Struct, frozen=True):
    """An installed skill."""

    name: str
    description: str
    file: Path


class SkillListing(msgspec.Struct, frozen=True):
    """A skill in an index; its id becomes the name of a folder."""

    id: str
    name: str
    url: str
    sha256: str
    description: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", self.id):
            raise ValueError(f"{self.id[:80]!r} is not the id of a skill")


class _SkillIndex(msgspec.Struct, frozen=True):
    skills: list[SkillListing]


class Skills:
    """The skills of a folder; with the URL of an `index`, and `load` to load URLs, others can be installed."""

    def __init__(self, folder: Path, *, index: str = "", load: LoadText | None = None) -> None:
        self._folder = folder
        self._index = index
        self._load = load

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        safe = Traits(sensitivity="safe", reads_only=True, source="builtin:skills")
        tools = [
            FunctionTool(self.list_skills, traits=safe),
            FunctionTool(self.read_skill, traits=safe),
        ]
        if self._index and self._load is not None:
            asks = Traits(source="builtin:skills", subject="skillId", parallel=False)
            tools += [
                FunctionTool(self.skillhub_search, traits=safe),
                FunctionTool(self.skillhub_install, traits=asks),
            ]
        return tools

    def list_skills(self) -> str:
        """List the skills: what can be read with read_skill."""
        return "\n".join(f"{each.name}: {each.description}" for each in self._installed()) or "There are no skills."

    def read_skill(self, name: str) -> str:
        """Read a skill: how something is done."""
        for skill in self._installed():
            if skill.name == name:
                return _read_text(skill.file)
        known = ", ".join(each.name for each in self._installed()) or "none"
        raise ToolError(f"There is no skill {name}. There are: {known}.")

    async def skillhub_search(self, query: str) -> str:
        """Search for skills that can be installed."""
        words = query.lower().split()
        found = [
            offer
            for offer in await self._listings()
            if all(word in f"{offer.id} {offer.name} {offer.description}".lower() for word in words)
        ]
        return "\n".join(f"{each.id}: {each.description or each.name}" for each in found[:50]) or "Nothing was found."

    async def skillhub_install(self, skillId: str) -> str:  # noqa: N803 - the name that models get
        """Install a skill by its id, as skillhub_search gives it."""
        offer = next((each for each in await self._listings() if each.id == skillId), None)
        if offer is None:
            raise ToolError(f"There is no skill {skillId} to install.")
        data = (await self._load_text(offer.url)).encode()
        if hashlib.sha256(data).hexdigest() != offer.sha256.lower():
            raise ToolError(f"{skillId} is not what the index says (its digest differs); it was not installed.")
        file = self._folder / offer.id / _SKILL_FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return f"Installed {offer.id}."

    def _installed(self) -> Iterator[Skill]:
        for file in sorted(self._folder.glob(f"*/{_SKILL_FILE}"))[:_MAX_SKILLS]:
            try:
                text = _read_text(file)
            except ToolError:
                continue
            head = text.split("---")[1] if text.startswith("---") else ""
            found = filter(None, map(_FIELD.match, head.splitlines()))
            fields = {field[1]: field[2].strip().strip("\"'") for field in found}
            yield Skill(fields.get("name") or file.parent.name, fields.get("description", ""), file)

    async def _listings(self) -> list[SkillListing]:
        try:
            return msgspec.json.decode(await self._load_text(self._index), type=_SkillIndex).skills
        except (msgspec.DecodeError, ValueError) as error:
            raise ToolError(f"The index of skills cannot be read: {error}") from error

    async def _load_text(self, url: str) -> str:
        assert self._load is not None
        text = await self._load(url)
        if len(text) > _SIZE_LIMIT:
            raise ToolError(f"{url} is larger than {_SIZE_LIMIT} characters.")
        return text


def _read_text(file: Path) -> str:
    try:
        data = read_limited(file, _SIZE_LIMIT + 1)
    except OSError as error:
        raise ToolError(f"{file}: {error.strerror}") from error
    if len(data) > _SIZE_LIMIT:
        raise ToolError(f"{file} is larger than {_SIZE_LIMIT} bytes.")
    return data.decode(errors="replace")
