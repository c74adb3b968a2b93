"""What may stand in an open bracket of a body."""

from fcshim.schema.expect import Expectation


class Members:
    """What may stand in a container; this base class admits everything."""

    holds_calls = False
    """True if the container holds the parts of calls, not of their arguments."""

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

    def lists_member(self, key: str) -> bool | None:
        """Return whether a key is one of the known ones; None where any key may come."""
        return self._expectation.lists_member(key)

    def member(self, key: str) -> Members:
        """Return what may stand in a member."""
        return SchemaMembers(self._expectation.member(key))

    def item(self, index: int) -> Members:
        """Return what may stand in an element."""
        return SchemaMembers(self._expectation.item(index))
