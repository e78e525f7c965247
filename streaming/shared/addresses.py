"""Client addresses for all HTTP servers of rheostat: which are this machine's own, and how limits count the others."""

from __future__ import annotations

import ipaddress

_IPV6_CUSTOMER_BITS = 64  # One customer of a provider has at least so many addresses.


def is_loopback(address: str) -> bool:
    """Returns whether the address is this machine's own; False for a text that is no address."""
    parsed = _parsed(address)
    return parsed is not None and parsed.is_loopback


def is_local_host(host: str) -> bool:
    """Returns whether only this machine reaches a server that listens on ``host``, an address or a name."""
    return host == "localhost" or is_loopback(host)


def counted_address(address: str) -> str:
    """The address that limits count: an IPv4 address itself, of an IPv6 address its /64 network.

    A text that is no address, as of a Unix socket, is returned unchanged.
    """
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        return str(ipaddress.IPv6Network((parsed, _IPV6_CUSTOMER_BITS), strict=False))
    return address if parsed is None else str(parsed)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    # A socket that listens on :: sees IPv4 clients under such addresses.
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
