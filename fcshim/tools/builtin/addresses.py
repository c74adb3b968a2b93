"""Decides which addresses may be fetched from (a defence against server-side request forgery).

Rule: the address that is judged is the one that the socket connects to, after everything that can change it: Unicode
digits, IDNA, decimal, octal and short forms, the resolver, each redirect. Private addresses (this machine, a local
network, a cloud's metadata service) are refused unless the operator allows them.
"""

import errno
import ipaddress
import socket
from ipaddress import IPv4Address, IPv6Address

from aiohttp import AddrInfoType


class PrivateAddressError(OSError):
    """A connection to a private address was refused; an `OSError`, so that the host's other addresses are tried."""


def public_socket(address: AddrInfoType) -> socket.socket:
    """Make the socket for a connection to `address`. Raises `PrivateAddressError`."""
    family, kind, protocol, _, (host, *_) = address
    if not is_public(str(host)):
        raise PrivateAddressError(errno.EACCES, f"{host} is a private address, which must not be fetched from")
    return socket.socket(family, kind, protocol)


def is_public(address: str) -> bool:
    """Return whether an address is global unicast; an IPv4 address embedded in an IPv6 address counts by itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    return _is_public_v4(parsed) if isinstance(parsed, IPv4Address) else _is_public_v6(parsed)


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in each for each in _RESERVED_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    if address in _NAT64:
        return _is_public_v4(IPv4Address(int(address) & 0xFFFF_FFFF))
    # Packets to IPv4-mapped, 6to4, Teredo and ISATAP addresses reach the IPv4 address inside.
    teredo = address.teredo[1] if address.teredo else None
    isatap = IPv4Address(int(address) & 0xFFFF_FFFF) if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP else None
    inner = address.ipv4_mapped or address.sixtofour or teredo or isatap
    if inner is not None:
        return _is_public_v4(inner)
    return address in _GLOBAL_UNICAST and address.is_global and address not in _DOCUMENTATION


_RESERVED_V4 = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
"""IETF protocol assignments, the retired 6to4 relays, and the platform service inside every Azure machine."""
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All assigned global addresses. Python calls others global too: ::127.0.0.1, fec0::1, 64:ff9b:1::7f00:1."""
_DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The bits before the IPv4 address in an ISATAP interface identifier (RFC 5214, 6.1)."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""The well-known prefix of RFC 6052; the last 32 bits are an IPv4 address."""
