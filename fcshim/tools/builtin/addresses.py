"""Which addresses may be fetched from.

Rule: a name is looked up once, and the connection goes to what was judged then; an address inside a network (this
machine, the office, a cloud's metadata) is refused unless the operator allows it.
Neighbours: `fetch` connects through this.
"""

import asyncio
import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from fcshim.errors import ToolError


class PublicResolver(AbstractResolver):
    """Looks names up and gives public addresses only; `private` lets all through."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Give the addresses of a host. Raises `OSError` where it has none, `ToolError` where none is public."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        allowed = [each for each in found if self._allow_private or is_public(str(each[4][0]))]
        if not allowed:
            raise ToolError(f"{host} is a private address, which must not be fetched from.")
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST
            )
            for kind, _, _, _, address in allowed
        ]

    async def close(self) -> None:
        """Nothing is held."""


def is_public(address: str) -> bool:
    """Tell whether an address is one of the internet at large, also where it is wrapped in an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
        if parsed in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)))
    return parsed.is_global and not parsed.is_multicast


def is_ip_literal(host: str) -> bool:
    """Tell whether a host is written as an address, which is not looked up."""
    try:
        ipaddress.ip_address(host.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    return True


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
