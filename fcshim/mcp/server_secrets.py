"""The credentials of a server's settings, which neither models nor clients nor logs get back from the server.

Rule: what is masked is known by the name of its variable, header, argument or parameter; a server is given them, and a
careless one repeats them in its errors.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from mcp.types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from fcshim.config import Secret
from fcshim.config.credentials import is_credential
from fcshim.config.secret import KeyMask
from fcshim.events import JSON
from fcshim.mcp.settings import HttpTransport, McpServerConfig, NpmTransport, StdioTransport

_KEY_LINE = 16
"""Characters from which on a line of a value of several lines is masked by itself."""
_PIECE_SIZE = 64 * 1024
_FIELDS = {JSONRPCRequest: "params", JSONRPCNotification: "params", JSONRPCResponse: "result", JSONRPCError: "error"}


def secrets_mask(server: McpServerConfig) -> KeyMask:
    """Return the mask of a server's credentials."""
    match server.transport:
        case StdioTransport(args=args, env=env) | NpmTransport(args=args, env=env):
            found = [*_named(env), *_of_arguments(args)]
        case HttpTransport(url=url, headers=headers):
            found = [*_named(headers), *_of_address(url)]
        case _:
            found = []
    return KeyMask(map(Secret, found))


async def mask_message(message: JSONRPCMessage, mask: KeyMask) -> None:
    """Replace the credentials in a message by asterisks, whatever it is: a result, a tool's description, a question.

    Other tasks run between pieces of a long one.
    """
    fields = _FIELDS[type(message)]
    value = getattr(message, fields)
    if value is None or mask.stream_mask() is None:
        return
    if isinstance(value, ErrorData):
        value.message = await _mask_text(value.message, mask)
        value.data = await _masked(value.data, mask)
    else:
        setattr(message, fields, await _masked(value, mask))


async def _masked(value: JSON, mask: KeyMask) -> JSON:
    """Return a JSON value without the credentials; the same if it has none."""
    texts = list(_texts(value))
    await asyncio.sleep(0)
    joined = "\0".join(texts)
    if joined == await _mask_text(joined, mask):
        return value
    masked = {text: await _mask_text(text, mask) for text in texts}
    return _replaced(value, masked)


async def _mask_text(text: str, mask: KeyMask) -> str:
    stream = mask.stream_mask()
    if stream is None:
        return text
    data = text.encode("utf-8", "surrogatepass")
    parts = []
    for start in range(0, len(data), _PIECE_SIZE):
        parts.append(stream.feed(data[start : start + _PIECE_SIZE]))
        await asyncio.sleep(0)
    return b"".join([*parts, stream.close()]).decode("utf-8", "surrogatepass")


def _texts(value: JSON) -> Iterator[str]:
    """Yield all strings of a JSON value, names of members too; its parser has limited its depth."""
    match value:
        case str():
            yield value
        case dict():
            for name, member in value.items():
                yield name
                yield from _texts(member)
        case list():
            for item in value:
                yield from _texts(item)


def _replaced(value: JSON, masked: Mapping[str, str]) -> JSON:
    match value:
        case str():
            return masked[value]
        case dict():
            return {masked[name]: _replaced(member, masked) for name, member in value.items()}
        case list():
            return [_replaced(item, masked) for item in value]
    return value


def _named(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of credentials' names, of `Bearer X` also `X`."""
    for name, value in values.items():
        if is_credential(name, parameter=True):
            # A private key is repeated with other line breaks; its first and last line are no secret.
            lines = [line for line in value.split() if len(line) >= _KEY_LINE] if "\n" in value else []
            yield from {value, value.rpartition(" ")[2], *lines}


def _of_arguments(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the values of `--api-key=X` and `--api-key X`."""
    before = ""
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign and is_credential(name, parameter=True):
            yield value
        elif before.startswith("-") and is_credential(before, parameter=True):
            yield argument
        before = argument


def _of_address(url: str) -> Iterator[str]:
    """Yield the password of an address, and the values of its credentials' parameters."""
    parts = urlsplit(url)
    yield parts.password or ""
    for name, value in parse_qsl(parts.query):
        if is_credential(name, parameter=True):
            yield value
