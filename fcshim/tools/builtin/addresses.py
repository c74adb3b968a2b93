"""Decides which addresses may be fetched from (a defence against server-side request forgery).

Rule: a name is resolved once, and the connection goes to the address that was checked, so that DNS rebinding fails.
Private addresses (this machine, a local network, a cloud's metadata service) are refused unless the operator allows
them.
"""

import asyncio
import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from fcshim.errors import ToolError


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only; `allow_private` permits all."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises `OSError` if it has none, `ToolError` if none is permitted."""
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
        """Do nothing: the resolver holds no resources."""


def is_public(address: str) -> bool:
    """Return whether an address is global unicast; an IPv4 address embedded in an IPv6 address counts by itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        # Packets to IPv4-mapped, 6to4 and Teredo addresses reach the IPv4 address inside.
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
        if parsed in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)))
    return parsed.is_global and not parsed.is_multicast


def is_ip_literal(host: str) -> bool:
    """Return whether a host is an IP address, which never reaches the resolver."""
    try:
        ipaddress.ip_address(host.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    return True


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""The well-known prefix of RFC 6052; the last 32 bits are an IPv4 address."""
