"""Addresses of HTTP clients and servers: tells whether an address is local, and which network counts as one client."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_IPV6_CUSTOMER_BITS = 64  # A provider assigns each customer at least one /64 network.


def is_loopback(address: str) -> bool:
    """Returns whether the address is a loopback address; False for text that is no address."""
    parsed = _parsed(address)
    return parsed is not None and parsed.is_loopback


def is_local_host(host: str) -> bool:
    """Returns whether a server that listens on ``host`` (address or name) is reachable from this machine only."""
    return host == "localhost" or is_loopback(host)


def is_https_or_local(url: str) -> bool:
    """Returns whether the traffic to this URL is protected: the URL has https, or it has http and a host of this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_local_host(host)))


def client_network(address: str) -> str:
    """Returns the network that per-client limits count as one client: an IPv4 address itself, an IPv6 address's /64 network.

    Text that is no address (a Unix socket) is returned unchanged.
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
    # A socket that listens on :: reports IPv4 clients as IPv4-mapped IPv6 addresses.
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
