"""Hosts, IP addresses and databases: what people write, in the one form that is used."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
"""A Host header that names one host (RFC 9110, section 7.2), where both ends read the same."""


def host_name(text: str) -> str:
    """Return a host as it is compared: without port, in small letters, an IP address in short.

    Raises ValueError for a text that is not one host, such as a whole address or a pattern.
    """
    if address := plain_ip(text):
        return address
    whole = HOST.fullmatch(text)
    if whole is None:
        raise ValueError("not one host")
    return whole[1].lower().removesuffix(".")


def plain_ip(text: str) -> str | None:
    """Return an IP address without port, brackets and zone; None for a text that is not one.

    An IPv4 address that a socket of both kinds shows as IPv6 (`::ffff:10.0.0.7`) is IPv4.
    """
    bracketed = re.fullmatch(r"\[([^]]*)\](:[0-9]+)?", text)
    with_port = re.fullmatch(r"([0-9.]+):[0-9]+", text)
    name = bracketed[1] if bracketed else with_port[1] if with_port else text
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


_HOSTS = re.compile(r"(postgres[a-z0-9+]*://(?:[^@/?]*@)?)([^@/?]*,[^@/?]*)/?(.*)")
"""Scheme and user, several hosts, and the rest of an address of PostgreSQL."""


def parse_url(text: str) -> URL:
    """Return the database address, with psycopg 3 as PostgreSQL's driver, whichever is named.

    Several hosts may be written as libpq has them, `host:port,host:port`. Raises ValueError, whose
    text has nothing of the address: that may have a password.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    several = _HOSTS.fullmatch(text)
    try:
        url = make_url(f"{several[1]}/{several[3]}" if several else text)
        names = (url.host, None if url.get_backend_name() == "sqlite" else url.database)
        if any("@" in (name or "") for name in names):  # of a password, which no message may show
            raise ValueError
    except (ArgumentError, ValueError):
        raise ValueError(
            "not a database address; write sqlite:////path/file.db or postgresql://user@host/name, "
            "with / : @ # ? % in a password as in an address (%2F)"
        ) from None
    if url.drivername.partition("+")[0] in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"{url.get_backend_name()} is not supported; use SQLite or PostgreSQL")
    if several:
        url = url.update_query_dict({"host": tuple(several[2].split(","))}, append=True)
    if url.get_backend_name() == "sqlite" and not url.database:
        raise ValueError("an SQLite store needs a file: sqlite:////path/file.db")
    return url
