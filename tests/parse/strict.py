"""A reference implementation of strict JSON: a checker of prefixes, and a loader of objects.

Rule: implements RFC 8259 independently of fcshim, so that it cannot share the parser's mistakes.
"""

import json
from typing import Any

_SPACE = " \t\n\r"
_ESCAPES = '"\\/bfnrt'
_HEX = "0123456789abcdefABCDEF"
_DIGITS = "0123456789"
_LITERALS = {"t": "rue", "f": "alse", "n": "ull"}


class NonStrictJsonError(AssertionError):
    """The text is not strict JSON, and no continuation of it is."""


def load_object(text: str) -> dict[str, Any]:
    """Load the object in strict `text`; duplicate keys, NaN, infinities and lone surrogates raise."""
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise NonStrictJsonError(f"not an object: {text[:80]!r}")
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise NonStrictJsonError(f"duplicate key among {[key for key, _ in pairs]}")
    return result


def _refuse(constant: str) -> None:
    raise NonStrictJsonError(f"not JSON: {constant}")


class PrefixReader:
    """Reads one JSON object in pieces and raises `NonStrictJsonError` at the first character that cannot belong to it.

    A pushdown automaton with one method per state; each takes a character and sets the next state.
    """

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._state = self._first
        self._rest = ""
        self._hex_left = 0
        self._read = 0
        self._in_key = False

    @property
    def complete(self) -> bool:
        """True if the object is closed."""
        return self._state == self._end

    def feed(self, text: str) -> None:
        """Read the next piece."""
        for character in text:
            self._state(character)
            self._read += 1

    def _fail(self, character: str) -> None:
        state = getattr(self._state, "__name__", "?").strip("_")
        raise NonStrictJsonError(f"{character!r} at {self._read} where {state} was expected")

    def _first(self, character: str) -> None:
        if character != "{":
            self._fail(character)
        self._open("{")

    def _open(self, bracket: str) -> None:
        self._stack.append(bracket)
        self._state = self._first_key if bracket == "{" else self._first_item

    def _close(self, character: str) -> None:
        if "{[".index(self._stack.pop()) != "}]".index(character):
            self._fail(character)
        self._state = self._after_value if self._stack else self._end

    def _end(self, character: str) -> None:
        self._fail(character)

    def _first_key(self, character: str) -> None:
        if character == "}":
            self._close(character)
        else:
            self._key(character)

    def _key(self, character: str) -> None:
        if character == '"':
            self._in_key, self._state = True, self._string
        elif character not in _SPACE:
            self._fail(character)

    def _colon(self, character: str) -> None:
        if character == ":":
            self._state = self._value
        elif character not in _SPACE:
            self._fail(character)

    def _first_item(self, character: str) -> None:
        if character == "]":
            self._close(character)
        else:
            self._value(character)

    def _value(self, character: str) -> None:
        if character in "{[":
            self._open(character)
        elif character == '"':
            self._in_key, self._state = False, self._string
        elif character == "-":
            self._state = self._minus
        elif character == "0":
            self._state = self._after_integer
        elif character in _DIGITS:
            self._state = self._integer
        elif character in _LITERALS:
            self._rest, self._state = _LITERALS[character], self._literal
        elif character not in _SPACE:
            self._fail(character)

    def _after_value(self, character: str) -> None:
        if character == ",":
            self._state = self._key if self._stack[-1] == "{" else self._value
        elif character in "}]":
            self._close(character)
        elif character not in _SPACE:
            self._fail(character)

    def _literal(self, character: str) -> None:
        if character != self._rest[0]:
            self._fail(character)
        self._rest = self._rest[1:]
        if not self._rest:
            self._state = self._after_value

    def _string(self, character: str) -> None:
        if character == '"':
            self._state = self._colon if self._in_key else self._after_value
        elif character == "\\":
            self._state = self._escape
        elif character < " ":
            self._fail(character)

    def _escape(self, character: str) -> None:
        if character == "u":
            self._hex_left, self._state = 4, self._unicode
        elif character in _ESCAPES:
            self._state = self._string
        else:
            self._fail(character)

    def _unicode(self, character: str) -> None:
        if character not in _HEX:
            self._fail(character)
        self._hex_left -= 1
        if not self._hex_left:
            self._state = self._string

    def _minus(self, character: str) -> None:
        if character not in _DIGITS:
            self._fail(character)
        self._state = self._after_integer if character == "0" else self._integer

    def _integer(self, character: str) -> None:
        if character not in _DIGITS:
            self._after_integer(character)

    def _after_integer(self, character: str) -> None:
        if character == ".":
            self._state = self._point
        else:
            self._after_mantissa(character)

    def _point(self, character: str) -> None:
        if character not in _DIGITS:
            self._fail(character)
        self._state = self._fraction

    def _fraction(self, character: str) -> None:
        if character not in _DIGITS:
            self._after_mantissa(character)

    def _after_mantissa(self, character: str) -> None:
        if character in "eE":
            self._state = self._exponent
        else:
            self._after_number(character)

    def _exponent(self, character: str) -> None:
        self._state = self._exponent_digits if character in "+-" else self._exponent_more
        if character not in "+-":
            self._exponent_digits(character)

    def _exponent_digits(self, character: str) -> None:
        if character not in _DIGITS:
            self._fail(character)
        self._state = self._exponent_more

    def _exponent_more(self, character: str) -> None:
        if character not in _DIGITS:
            self._after_number(character)

    def _after_number(self, character: str) -> None:
        self._state = self._after_value
        self._after_value(character)
