"""The credentials of a server's settings, which neither models nor clients nor logs get back from the server.

Rule: what is masked is known by the name of its variable, header, argument or parameter; a server is given them, and a
careless one repeats them in its errors.
"""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fcshim.config import Secret
from fcshim.config.credentials import is_credential
from fcshim.config.secret import KeyMask
from fcshim.mcp.settings import HttpTransport, McpServerConfig, NpmTransport, StdioTransport
from fcshim.messages import TextPart
from fcshim.tools.result import ToolResult


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


def mask_result(result: ToolResult, mask: KeyMask) -> ToolResult:
    """Return a result without the credentials."""
    content = tuple(
        TextPart(mask.mask_text(part.text)) if isinstance(part, TextPart) else part for part in result.content
    )
    structured = msgspec.json.encode(result.structured)
    masked = mask.mask(structured)
    if content == result.content and masked == structured:
        return result
    return msgspec.structs.replace(result, content=content, structured=msgspec.json.decode(masked))


def _named(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of credentials' names, of `Bearer X` also `X`."""
    for name, value in values.items():
        if is_credential(name, parameter=True):
            yield from {value, value.rpartition(" ")[2]}


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
