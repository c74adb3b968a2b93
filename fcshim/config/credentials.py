"""Finds credentials in a request by the names of headers, query parameters and body fields, and masks them.

Rule: a value under such a name is masked where it stands, however short; and from `MIN_SECRET_LENGTH` on, wherever else
it or another spelling of it occurs. JSON inside strings (the arguments of past calls) is searched too. A wrong mask is
harmless, a missing one is not: names are judged generously.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

import msgspec

from fcshim.config.secret import MIN_SECRET_LENGTH, Secret
from fcshim.events import JSON

MASKED = "***"
_NAME = re.compile(
    r"authoriz|passwor|passwd|passphrase|credential|cookie|bearer|jwt|^(?:pwd|auth|otp|totp)$|secrets?(?:value|key)?$"
    r"|(?:api|access|private|secret|signing|encryption|subscription|auth|account|master|session|service|license)keys?"
    r"|(?<!eos)(?<!bos)(?<!pad)(?<!page)(?<!stop)token$"
)
"""A name's letters, in lower case. `max_tokens` and `next_page_token` are no credentials."""
_PARAMETER = re.compile(r"^(?:key|sig|code|signature|[a-z]*signature)$")
"""Further names that hold credentials in a query or a header."""
_HINT = re.compile(
    rb"authoriz|passw|passphrase|credential|cookie|bearer|jwt|pwd|\"auth|otp|secret|token(?!s)|key|\\u00", re.IGNORECASE
)
"""Occurs in every document that has a field with such a name. `\\u00` may spell any letter."""
_MAX_DEPTH = 64
"""Levels of JSON that are searched; what lies deeper is left out of what is kept."""
_MAX_SECRETS = 64
"""Different credentials of one request; with more, nothing of its content is kept."""


def is_credential(name: str, *, parameter: bool = False) -> bool:
    """Tell whether a field of this name holds a credential; `parameter`: it is one of a query or a header."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    return bool(_NAME.search(letters)) or (parameter and bool(_PARAMETER.search(letters)))


class CredentialMask:
    """Masks the credentials of one request. Show it all parts of the request before the first `mask`."""

    def __init__(self, known: Iterable[Secret] = ()) -> None:
        self._secrets = {secret for secret in known if len(secret.reveal()) >= MIN_SECRET_LENGTH}
        self._limit = len(self._secrets) + _MAX_SECRETS

    @property
    def overflowed(self) -> bool:
        """Whether there are too many credentials to mask each wherever it occurs."""
        return len(self._secrets) > self._limit

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._secrets)

    def headers(self, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
        """Return headers as text, with masked values."""
        return [(name.decode("latin-1"), self._parameter(name.decode("latin-1"), value)) for name, value in headers]

    def query(self, query: bytes) -> str:
        """Return a query with masked values."""
        fields = [field.partition(b"=") for field in query.split(b"&")]
        shown = [
            (name.decode("latin-1"), equals, self._parameter(unquote_to_bytes(name).decode("latin-1"), value))
            for name, equals, value in fields
        ]
        return "&".join(name + equals.decode() + value for name, equals, value in shown)

    def body(self, body: bytes) -> bytes:
        """Return a JSON body with masked fields; the same object if it has none. No JSON has no fields."""
        if not _HINT.search(body):
            return body
        try:
            document = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return body
        before = len(self._secrets)
        masked, changed = self._value(document, 0)
        return msgspec.json.encode(masked) if changed or len(self._secrets) > before else body

    def mask(self, data: bytes) -> bytes:
        """Mask every occurrence of the credentials that were found; the length stays."""
        for secret in self._secrets:
            data = secret.mask(data)
        return data

    def mask_text(self, text: str) -> str:
        """Mask every occurrence of the credentials in a text."""
        return self.mask(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace") if self._secrets else text

    def _parameter(self, name: str, value: bytes) -> str:
        text = value.decode("latin-1")
        if not is_credential(name, parameter=True):
            return text
        scheme, space, rest = text.partition(" ")
        self._found(rest if space else text)
        self._found(unquote_to_bytes(value).decode("latin-1"))
        for cookie in text.split(";"):
            self._found(cookie.partition("=")[2])
        return f"{scheme} {MASKED}" if space and scheme.isalpha() else MASKED

    def _found(self, value: str) -> None:
        if len(value.strip()) >= MIN_SECRET_LENGTH and not self.overflowed:
            self._secrets.add(Secret(value.strip()))

    def _value(self, value: JSON, depth: int) -> tuple[JSON, bool]:
        """Return a value with masked fields, and whether any was masked."""
        if depth > _MAX_DEPTH:
            return MASKED, True
        match value:
            case dict():
                items = [(name, self._field(name, inner, depth)) for name, inner in value.items()]
                return {name: masked for name, (masked, _) in items}, any(changed for _, (_, changed) in items)
            case list():
                results = [self._value(inner, depth + 1) for inner in value]
                return [masked for masked, _ in results], any(changed for _, changed in results)
            case str():
                return self._string(value, depth)
            case _:
                return value, False

    def _field(self, name: str, value: JSON, depth: int) -> tuple[JSON, bool]:
        if not is_credential(name) or value is None or isinstance(value, bool):
            return self._value(value, depth + 1)
        if isinstance(value, str | int | float):
            self._found(str(value))
            return MASKED, True
        if isinstance(value, list):
            strings = [inner for inner in value if isinstance(inner, str | int | float)]
            for inner in strings:
                self._found(str(inner))
            return ([MASKED] * len(value), True) if len(strings) == len(value) else self._value(value, depth + 1)
        return self._value(value, depth + 1)  # a schema of such a field, most often

    def _string(self, text: str, depth: int) -> tuple[str, bool]:
        if text.lstrip()[:1] not in {"{", "["} or not _HINT.search(text.encode("utf-8", "surrogatepass")):
            return text, False
        try:
            inner = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return text, False
        masked, changed = self._value(inner, depth + 1)
        return (msgspec.json.encode(masked).decode(), True) if changed else (text, False)
