"""Finds credentials in a request by the names of headers, query parameters and body fields, and masks them.

Rule: a value under such a name is masked where it stands, however short; and from `MIN_SECRET_LENGTH` on, wherever else
it or another spelling of it occurs. JSON inside strings (the arguments of past calls) and addresses are searched too. A
wrong mask is harmless, a missing one is not: names are judged generously.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, unquote_to_bytes

import msgspec

from fcshim.codecs.body_fields import is_dense
from fcshim.config.secret import MIN_SECRET_LENGTH, KeyMask, Secret
from fcshim.events import JSON

MASKED = "***"
_NAME = re.compile(
    r"authoriz|passwor|passwd|passphrase|credential|cookie|bearer|jwt|^(?:pwd|x?auth|otp|totp|pin|pincode|cvc|cvv)$"
    r"|secrets?(?:value|key)?$"
    r"|(?:api|access|private|secret|signing|encryption|subscription|auth|account|master|session|service|license|ssh|ssl"
    r"|deploy|storage)keys?"
    r"|(?<!eos)(?<!bos)(?<!pad)(?<!page)(?<!stop)token$"
)
"""A name's letters, in lower case. `max_tokens` and `next_page_token` are not credentials."""
_PARAMETER = re.compile(r"^(?:sig|code)$|signature|key(?:id)?$")
"""Further names that hold credentials in a query or a header."""
_PARAMETERS = re.compile(r"headers?$|^(?:env|environment|query|queryparams)$")
"""Fields whose fields are headers, parameters or variables: of an MCP server, for example."""
_PAIR = ("name", "key", "header")
"""Fields with the name of a parameter, whose value stands beside it in `value`."""
_SCHEMA_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_URL = re.compile(
    r"(?P<userinfo>://[^\s/?#@:\"]*:)(?P<password>[^\s/?#@\"]+)(?=@)"
    r"|(?P<name>(?<=[?&#;])[^\s?&#;=\"]{1,100})=(?P<value>[^\s&#;\"'<>)]+)"
)
"""The parts of an address that may be credentials: a password before the host, a parameter."""
_ASSIGNMENT = re.compile(
    r"(?<![\w-])(?:--?(?P<flag>[A-Za-z][\w-]{0,99})(?:\s{1,8}|=)|(?P<name>[A-Za-z][\w-]{0,99})[\"'\\]{0,2}\s{0,8}[:=]\s{0,8})",
    re.ASCII,
)
"""A name with the sign before its value, in a text."""
_ASSIGNED = re.compile(
    r"[\"'\\]{0,2}(?:(?:Bearer|Basic|Token)\s{1,8})?(?P<value>(?<=[\"'])[^\"'\\\n]+|[^\s\"'\\,;&<>]+)", re.IGNORECASE
)
"""The value behind such a name: to the end of its quotation, or of the word."""
_HINTS = (
    b"pass", b"pwd", b"authoriz", b"credential", b"cookie", b"bearer", b"jwt", b"secret", b"token", b"key", b"otp",
    *(b'auth"', b"auth\\", b'pin"', b"pin\\", b"code", b"cvc", b"cvv", b"sig", b"\\u00"),
)  # fmt: skip
"""One occurs, in lower case, in every document that has a field with such a name. `\\u00` may be any letter."""
_MAX_DEPTH = 64
"""Levels of JSON that are searched; deeper values are not recorded."""
_MAX_SECRETS = 64
"""Different credentials of one request; with more, its content is not recorded."""


def is_credential(name: str, *, parameter: bool = False) -> bool:
    """Return whether a field of this name holds a credential; `parameter`: it is one of a query or a header."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    return bool(_NAME.search(letters)) or (parameter and bool(_PARAMETER.search(letters)))


def _may_have_credentials(text: bytes) -> bool:
    """Return whether a text has to be searched; fixed strings are found in a fraction of an expression's time."""
    lowered = text.lower()
    return any(hint in lowered for hint in _HINTS) or (b"://" in lowered and b"@" in lowered)


class CredentialMask:
    """Masks the credentials of one request. Show it all parts of the request before the first `mask`."""

    def __init__(self, known: Iterable[Secret] = ()) -> None:
        self._secrets = {secret for secret in known if len(secret.reveal()) >= MIN_SECRET_LENGTH}
        self._limit = len(self._secrets) + _MAX_SECRETS
        self._has_unsearched = False  # whether a part had too many JSON values to be searched

    @property
    def overflowed(self) -> bool:
        """Whether there are too many credentials to mask each wherever it occurs, or too many values to search them."""
        return self._has_unsearched or len(self._secrets) > self._limit

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
        """Return a JSON body with masked fields; the same object if nothing is masked, or if it is not JSON."""
        if not _may_have_credentials(body):
            return body
        if is_dense(body):  # decoding would hold the interpreter's lock for long
            self._has_unsearched = True
            return body
        try:
            document = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return body
        before = len(self._secrets)
        masked, changed = self._value(document, 0)
        return msgspec.json.encode(masked) if changed or len(self._secrets) > before else body

    def text(self, text: str) -> str:
        """Return a text, or a JSON document, as it may be logged.

        Beside fields of JSON, `NAME=value`, `NAME: value` and `--NAME value` are masked by the name, as in commands,
        headers and files of variables; and what texts before had under such a name.
        """
        shown, _ = self._addresses(self.body(text.encode("utf-8", "replace")).decode())
        parts, at = [], 0
        for found in _ASSIGNMENT.finditer(shown):
            value = _ASSIGNED.match(shown, found.end()) if is_credential(found["flag"] or found["name"]) else None
            if value is not None and found.start() >= at:
                self._found(value["value"])
                parts += [shown[at : value.start("value")], MASKED]
                at = value.end()
        masked = self.mask_text("".join([*parts, shown[at:]]))
        return "(not searched for credentials, so not shown)" if self.overflowed else masked

    def mask(self, data: bytes) -> bytes:
        """Mask every occurrence of the credentials that were found; the length stays."""
        # The longest first: a shorter one may be its beginning.
        return KeyMask(sorted(self._secrets, key=lambda secret: (-len(secret.reveal()), secret.reveal()))).mask(data)

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

    def _value(self, value: JSON, depth: int, *, parameter: bool = False) -> tuple[JSON, bool]:
        """Return a value with masked fields, and whether any was masked; `parameter`: its fields are parameters."""
        if depth > _MAX_DEPTH:
            return MASKED, True
        match value:
            case dict():
                pair = any(isinstance(named := value.get(name), str) and is_credential(named) for name in _PAIR)
                items = [
                    (name, self._field(name, inner, depth, parameter=parameter, hidden=pair and name == "value"))
                    for name, inner in value.items()
                ]
                return {name: masked for name, (masked, _) in items}, any(changed for _, (_, changed) in items)
            case list():
                results = [self._value(inner, depth + 1) for inner in value]
                return [masked for masked, _ in results], any(changed for _, changed in results)
            case str():
                return self._string(value, depth)
            case _:
                return value, False

    def _field(
        self, name: str, value: JSON, depth: int, *, parameter: bool = False, hidden: bool = False
    ) -> tuple[JSON, bool]:
        if hidden or is_credential(name, parameter=parameter):
            return self._credential(value, depth)
        letters = re.sub(r"[^a-z]", "", name.lower())
        return self._value(value, depth + 1, parameter=bool(_PARAMETERS.search(letters)))

    def _credential(self, value: JSON, depth: int) -> tuple[JSON, bool]:
        """Mask a value under the name of a credential, with all that is in it."""
        if depth > _MAX_DEPTH:
            return MASKED, True
        match value:
            case None | bool():
                return value, False
            case dict() if _is_schema(value):  # of a tool's parameter: only what it shows as a value is secret
                shown = {"default", "const", "enum", "example", "examples"} & value.keys()
                rest = {name: self._value(inner, depth + 1) for name, inner in value.items() if name not in shown}
                hidden = {name: self._credential(value[name], depth + 1) for name in shown}
                results = {name: (hidden if name in shown else rest)[name] for name in value}
                return {name: each for name, (each, _) in results.items()}, any(each for _, each in results.values())
            case dict():
                return {name: self._credential(inner, depth + 1)[0] for name, inner in value.items()}, True
            case list():
                return [self._credential(inner, depth + 1)[0] for inner in value], True
            case _:
                text = str(value)
                scheme, space, token = text.partition(" ")
                self._found(token if space and scheme.isalpha() else text)
                self._found(text)
                return MASKED, True

    def _string(self, text: str, depth: int) -> tuple[str, bool]:
        encoded = text.encode("utf-8", "surrogatepass")
        if not _may_have_credentials(encoded):
            return text, False
        if text.lstrip()[:1] in {"{", "["}:
            if is_dense(encoded):
                self._has_unsearched = True
                return text, False
            try:
                inner = msgspec.json.decode(text)
            except (ValueError, RecursionError):
                return self._addresses(text)
            masked, changed = self._value(inner, depth + 1)
            return (msgspec.json.encode(masked).decode(), True) if changed else (text, False)
        return self._addresses(text)

    def _addresses(self, text: str) -> tuple[str, bool]:
        """Return a text with masked passwords and parameters of addresses."""
        if "://" not in text:
            return text, False
        masked = _URL.sub(self._masked_part, text)
        return masked, masked != text

    def _masked_part(self, found: re.Match[str]) -> str:
        name, secret = found["name"], found["password"] or found["value"]
        if name is not None and not is_credential(unquote(name), parameter=True):
            return found[0]
        if len(self._secrets) < self._limit - _MAX_SECRETS // 2:  # a page has many signed addresses
            self._found(unquote(secret))
            self._found(secret)
        return f"{found['userinfo'] or name + '='}{MASKED}"


def _is_schema(value: dict[str, JSON]) -> bool:
    kind = value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return all(isinstance(each, str) and each in _SCHEMA_TYPES for each in kinds) or any(
        name in value for name in ("$ref", "anyOf", "oneOf", "allOf", "properties", "enum", "const")
    )
