"""Where messages may go: public addresses, and hosts that the operator allows by name.

Without this, a user who sets a budget could make the server send requests into its own network.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from gramwatt.service.addresses import host_name

NAT64 = IPv6Network("64:ff9b::/96")
"""IPv6 addresses that a gateway turns into any IPv4 address (RFC 6052)."""
HIDDEN = tuple(map(IPv6Network, ("64:ff9b:1::/48", "::/96", "fec0::/10")))
"""Translated locally (RFC 8215), IPv4-compatible and site-local: of no public network."""
Resolve = Callable[[str, int], Sequence[str]]


class AddressError(ValueError):
    """An address to which nothing is sent; the message says why and what to do."""


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of a host; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def parse_webhook(url: str, allowed: Collection[str]) -> SplitResult:
    """Return the parts of a webhook's address; raises AddressError for one that can never be
    used.
    """
    try:
        parts = urlsplit(url)
        host = host_name(parts.hostname or "") if parts.port != 0 else ""
    except ValueError:
        raise AddressError(f"{url!r} is not the address of a webhook") from None
    if not host or parts.scheme not in ("https", "http") or any(c.isspace() for c in url):
        raise AddressError(f"{url!r} is not the address of a webhook; write https://host/path")
    if not (parts.path.isascii() and parts.query.isascii()):
        raise AddressError("a webhook's path is ASCII: write other signs as %C3%A4")
    if parts.username or parts.password:
        raise AddressError("a webhook's address holds no user or password; use the signature")
    if parts.scheme == "http" and host not in allowed:
        raise AddressError(
            f"webhooks to {host} need https; http is for hosts named in GRAMWATT_WEBHOOK_HOSTS"
        )
    return parts


def shown(url: str) -> str:
    """Return a webhook's address without its path, which may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" + ("/..." if parts.path.strip("/") else "")


def checked_address(
    parts: SplitResult, allowed: Collection[str], lookup: Resolve = resolve
) -> tuple[str, int]:
    """Return the IP address and port to connect to; raises AddressError for one that is not public.

    Every address that the host has must be public, unless the host is `allowed`.
    """
    host = host_name(parts.hostname or "")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = lookup(host, port)
    except (OSError, UnicodeError):
        raise AddressError(f"{host} is not known") from None
    if not found:
        raise AddressError(f"{host} is not known")
    if host not in allowed:
        hidden = [address for address in found if not is_public(address)]
        if hidden:
            raise AddressError(
                f"{host} is {hidden[0]}, which is not public; allow it in GRAMWATT_WEBHOOK_HOSTS"
            )
    return found[0], port


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public network, also behind what it wraps."""
    found = ip_address(address.partition("%")[0])
    wrapped: IPv4Address | IPv6Address | None = None
    if isinstance(found, IPv6Address):
        if any(found in network for network in HIDDEN):
            return False
        teredo = found.teredo
        wrapped = found.ipv4_mapped or found.sixtofour or (teredo[1] if teredo else None)
        if found in NAT64:
            wrapped = IPv4Address(int(found) & 0xFFFFFFFF)
    checked = wrapped or found
    return checked.is_global and not checked.is_multicast
