"""The open brackets of a body, and what the schema admits in each of them."""

from dataclasses import dataclass, field

from fcshim.schema.expect import Expectation


class Members:
    """What may stand in a container; this base class admits everything."""

    holds_calls = False
    """True if the container holds the parts of calls, not of their arguments."""
    admits_only_strings = False
    """True if this is a value that can only be a string."""

    def lists_member(self, _key: str) -> bool | None:
        """Return whether a key is one of the known ones; None where any key may come."""
        return None

    def member(self, _key: str) -> "Members":
        """Return what may stand in a member."""
        return self

    def item(self, _index: int) -> "Members":
        """Return what may stand in an element."""
        return self

    def after(self, _key: str, _text: str) -> "Members":
        """Return what may stand in the container after a member; `text` is its value if that is a string."""
        return self


ANYTHING = Members()


class SchemaMembers(Members):
    """What the schema admits."""

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation

    @property
    def admits_only_strings(self) -> bool:  # type: ignore[override] # a property for a class attribute
        """True if this is a value that can only be a string."""
        return self._expectation.only_strings

    def lists_member(self, key: str) -> bool | None:
        """Return whether a key is one of the known ones; None where any key may come."""
        return self._expectation.lists_member(key)

    def member(self, key: str) -> Members:
        """Return what may stand in a member."""
        return SchemaMembers(self._expectation.member(key))

    def item(self, index: int) -> Members:
        """Return what may stand in an element."""
        return SchemaMembers(self._expectation.item(index))


@dataclass(slots=True)
class Scope:
    """One open bracket."""

    closer: str
    """The bracket that closes it."""
    members: Members
    keyed: bool
    """True if its values have keys."""
    keys: set[str] = field(default_factory=set)
    """The keys that were read."""
    key: str = ""
    """The key of the current value."""
    index: int = 0
    """The number of values before the current one."""
    expects_value: bool = False
    """True after a key."""
    is_arguments: bool = False
    """True if it holds the arguments of a call in Python's syntax."""
    has_keyword: bool = False
    """True after a key."""

    @property
    def expects_key(self) -> bool:
        """True where a key must come."""
        return self.keyed and not self.expects_value

    def inner_members(self) -> Members:
        """Return what may stand in the current value."""
        return self.members.member(self.key) if self.keyed else self.members.item(self.index)

    def has_wrong_key(self) -> bool:
        """Return whether one of its keys is none of the known ones."""
        return not self.members.holds_calls and any(self.members.lists_member(key) is False for key in self.keys)
