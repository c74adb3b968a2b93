"""Where a tool-call field of a `response_template` has the tool's name and the arguments.

Rule: only `name` and `arguments` of a call matter, in the field's content or in the groups of its opening pattern.
"""

from dataclasses import dataclass

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.parse.response_template.template import TemplateField, placeholder

Path = tuple[str, ...]
CONTENT = "content"


@dataclass(frozen=True, slots=True)
class CallShape:
    """Paths of placeholders: the first part is `content`, an item's key, or a group of the opening pattern.

    Both are empty where the content itself is the call.
    """

    name: Path = ()
    arguments: Path = ()
    each: bool = False
    """True where the content is an array of calls."""
    constant: str = ""
    """The tool's name, where the template has it as text."""

    @property
    def is_whole(self) -> bool:
        """True where the content itself is the call, or an array of calls."""
        return not self.arguments

    @property
    def in_content(self) -> bool:
        """True where both are in the content."""
        return bool(self.name) and (self.each or self.name[0] == self.arguments[0] == CONTENT)

    @property
    def name_group(self) -> str:
        """The group of the opening pattern that has the tool's name; empty for none."""
        return self.name[0] if self.name and not self.in_content else ""

    @property
    def keys(self) -> tuple[Path, Path]:
        """The paths of the name and of the arguments inside the content."""
        return (self.name, self.arguments) if self.each else (self.name[1:], self.arguments[1:])


def call_shape(name: str, field: TemplateField) -> CallShape:
    """Read the shape of calls from a field's transform. Raises `ConfigError`."""
    call = _call_of(field.transform)
    if call is None:
        return CallShape(each=field.transform_each)
    arguments = placeholder(call.get("arguments"))
    named = placeholder(call.get("name"))
    if arguments is None or not isinstance(call.get("name"), str):
        raise ConfigError(
            f"response_template: fields.{name}: expected a transform with the placeholders of a call's name and "
            f"arguments, not {field.transform!r:.200}"
        )
    constant = "" if named else call["name"]
    return CallShape(tuple(named or ()), tuple(arguments), field.transform_each, constant)


def _call_of(transform: JSON) -> dict[str, JSON] | None:
    """Return the object with a call's name and arguments; None where the content is the call."""
    inner = transform.get("function", transform) if isinstance(transform, dict) else transform
    if inner is None or placeholder(inner) == [CONTENT]:
        return None
    return inner if isinstance(inner, dict) else {}


def value_at(value: JSON, path: Path) -> JSON:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def with_value(path: Path, value: JSON, into: dict[str, JSON]) -> dict[str, JSON]:
    """Put a value at a path of keys into an object, and return the object."""
    *outer, last = path
    target = into
    for key in outer:
        target = target.setdefault(key, {})
    target[last] = value
    return into
