"""Hides API keys in representations, messages and relayed bytes.

Rule: a key is masked in every spelling in which servers repeat what they were sent: as it is, escaped for JSON, URLs or
HTML, in Base64 (alone, or as a part such as `user:key`), and in hexadecimal. A mask is as long as what it covers, so
that a `Content-Length` stays true.
"""

import base64
import functools
import html.entities
import re
from collections.abc import Iterable, Sequence

MIN_SECRET_LENGTH = 8
"""Characters from which on a key is masked in other data; a shorter one could be an ordinary word."""
_ESCAPE = re.compile(
    rb"\\[ux/+=_.~-]|%[0-9a-fA-F]"
    rb"|&(?:#|amp;|(?:sol|plus|equals|lowbar|UnderBar|period|colon|comma|excl|dollar|percnt|ast|midast|commat|num);)"
)
"""An escape as it may stand in a spelling of a key. Where there is none, only the plain texts can occur."""
_AMPERSAND = rb"(?:&|\\+(?:u0026|x26))(?:amp;)*"
"""The start of an HTML escape; it may be escaped itself: Go writes `&` as `\\u0026` in JSON."""
_PERCENT = rb"(?:%|\\+(?:u0025|x25)|&(?:amp;)*(?:#37|#[xX]25|percnt);)(?:25)*"
_UNFINISHED_ESCAPE = re.compile(
    rb"(?:\\+(?:[ux]?\{?[0-9a-fA-F]{0,4}|(?:u002[56]|x2[56])[#a-zA-Z0-9;]{0,16})|%[0-9a-fA-F]{0,8}"
    rb"|&[#a-zA-Z0-9;]{0,16})\Z"
)


class Secret:
    """A key that is hidden in `repr`, `str` and f-strings."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key."""
        return self._value

    def mask(self, data: bytes) -> bytes:
        """Replace the key in `data` with as many asterisks; a key of a few letters is a placeholder and stays."""
        return KeyMask([self]).mask(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('***')"


class KeyMask:
    """Masks some keys; those of a few letters are placeholders and stay."""

    def __init__(self, keys: Iterable[Secret]) -> None:
        texts = dict.fromkeys(key.reveal() for key in keys)
        self._spellings = _spellings(tuple(text for text in texts if len(text) >= MIN_SECRET_LENGTH))

    def mask(self, data: bytes) -> bytes:
        """Replace the keys in `data` with as many asterisks."""
        return data if self._spellings is None else self._spellings.mask(data)

    def mask_text(self, text: str) -> str:
        """Replace the keys in a message."""
        return self.mask(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def stream_mask(self) -> "StreamMask | None":
        """Return a mask for one body that comes in pieces; None if there is no key to mask."""
        return None if self._spellings is None else StreamMask(self._spellings)


class StreamMask:
    """Masks keys in a body, also where a read ends inside the key; only a tail that could begin one waits."""

    __slots__ = ("_spellings", "_tail")

    def __init__(self, spellings: "_Spellings") -> None:
        self._spellings = spellings
        self._tail = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body; return those that can be passed on."""
        if self._tail:
            data, self._tail = self._tail + data, b""
        data = self._spellings.mask(data)
        if data.endswith(b"\n"):  # no key has a line break: nearly every read of a stream ends here
            return data
        start = self._spellings.find_unfinished(data)
        self._tail = data[start:]
        return data[:start]

    def close(self) -> bytes:
        """Return the bytes that were held back, at the end of the body."""
        data, self._tail = self._tail, b""
        return data


class _Spellings:
    """All spellings of some keys: the texts that stand for them, with a pattern for each of their characters."""

    def __init__(self, keys: Sequence[str]) -> None:
        texts = [text for key in keys for text in _encodings(key)]
        self._literals = [text.encode() for text in texts]
        # Letters and digits are escaped only where everything is; Base64 and hexadecimal are made of little else.
        self._forms = [_forms(text, only_signs=text not in keys) for text in texts]
        self._start = re.compile(b"[%b%b]" % (b"".join(re.escape(text[:1]) for text in self._literals), rb"\\%&"))
        self._max_length = 12 * max(map(len, texts))

    def mask(self, data: bytes) -> bytes:
        if not (_ESCAPE.search(data) or any([text in data for text in self._literals])):  # noqa: C419 - faster
            return data
        parts: list[bytes] = []
        end = 0
        for candidate in self._start.finditer(data):
            match = self._pattern.match(data, candidate.start()) if candidate.start() >= end else None
            if match is not None:
                parts += [data[end : match.start()], b"*" * len(match[0])]
                end = match.end()
        return b"".join([*parts, data[end:]])

    def find_unfinished(self, data: bytes) -> int:
        """Return where a tail starts that could be the beginning of the key; the length of `data` if none does."""
        for match in self._start.finditer(data, max(len(data) - self._max_length, 0)):
            if any(_is_beginning(data, match.start(), forms) for forms in self._patterns):
                return match.start()
        return len(data)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(map(b"".join, self._forms)))

    @functools.cached_property
    def _patterns(self) -> list[list[re.Pattern[bytes]]]:
        return [[_compile(form) for form in forms] for forms in self._forms]


def _forms(text: str, *, only_signs: bool = False) -> list[bytes]:
    return [
        character.encode() if only_signs and character.isalnum() else _escaped_forms(character) for character in text
    ]


def _is_beginning(data: bytes, start: int, forms: Sequence[re.Pattern[bytes]]) -> bool:
    """Return whether all bytes from `start` on spell a beginning of the key."""
    for form in forms:
        if start == len(data):
            return True
        match = form.match(data, start)
        if match is None:
            return _UNFINISHED_ESCAPE.match(data, start) is not None
        start = match.end()
    return False


_compile = functools.lru_cache(maxsize=1024)(re.compile)


@functools.lru_cache(maxsize=16)
def _spellings(keys: tuple[str, ...]) -> _Spellings | None:
    return _Spellings(keys) if keys else None


def _encodings(key: str) -> list[str]:
    """Return the texts that stand for the key: itself, hexadecimal, and what its Base64 shares in every context."""
    data = key.encode()
    texts = [key, data.hex(), data.hex().upper()]
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + data).decode()
        # Characters at both ends depend on the bytes before and after the key.
        common = encoded[-(-shift * 8 // 6) : (shift + len(data)) * 8 // 6]
        texts += [common, common.replace("+", "-").replace("/", "_")]
    return list(dict.fromkeys(texts))


@functools.lru_cache(maxsize=256)
def _escaped_forms(character: str) -> bytes:
    """Return a pattern for one character as it is, or escaped once or several times."""
    code = ord(character)
    digits = _any_case(b"%x" % code)
    # JSON allows a slash after a backslash
    backslashed = b"" if character.isalnum() else b"|" + re.escape(character.encode())
    percent = b"".join(_PERCENT + _any_case(b"%02x" % byte) for byte in character.encode())
    entities = (name for name, text in html.entities.html5.items() if text == character and name.endswith(";"))
    names = b"".join(b"|%b" % name.encode() for name in entities)
    return rb"(?:%b|\\+(?:u\{?0*%b\}?|x%b%b)|%b|%b(?:#0*%d;?|#[xX]0*%b;?%b))" % (
        re.escape(character.encode()),
        digits,
        digits,
        backslashed,
        percent,
        _AMPERSAND,
        code,
        digits,
        names,
    )


def _any_case(digits: bytes) -> bytes:
    return b"".join(b"[%c%c]" % (digit, digit ^ 32) if digit > 57 else b"%c" % digit for digit in digits)
