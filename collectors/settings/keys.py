"""Keys of servers: the key of each home, and the keys of `gramwatt serve --link`.

Their files are of this user alone.

`gramwatt serve` makes the home's key, which this user's commands read. `gramwatt login URL`
stores one for a server in `keys.toml`, beside the user's settings.
"""

from __future__ import annotations

import json
import os
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

from gramwatt.collectors.settings import files

HOME_FILE, STORED_FILE = "server.key", "keys.toml"
HOME_PREFIX = "gw_server_"
"""How a home's key begins; a key that a person made has its own visible part for `server`."""
_LISTEN = "0A"
"""State of a listening socket (Linux, include/net/tcp_states.h)."""


class HomeKey(str):
    """The key of a home, which its reader took and nobody set: for servers of this user alone."""

    __slots__ = ()


def home_key(home: Path) -> str | None:
    """Return the key in a home; None when there is none, or none that this user may read."""
    text = files.text_of(home / HOME_FILE)
    return text if text and text.startswith(HOME_PREFIX) else None


def ensure_home_key(home: Path) -> str:
    """Return the key in a home, made at first: random, 256 bit, in a file of mode 0600.

    Of several processes that make one at once, the first wins: each holds the file's lock from
    reading to writing. Raises OSError.
    """
    import fcntl  # Windows has none, and `gramwatt doctor` runs there too
    import secrets  # with OpenSSL, which the meter does without

    files.folder(home)
    descriptor = files.opener(str(home / HOME_FILE), os.O_RDWR | os.O_CREAT)
    with open(descriptor, "r+", encoding="ascii", errors="replace") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        key = stream.read().strip()
        if not key.startswith(HOME_PREFIX):
            key = f"{HOME_PREFIX}{secrets.token_urlsafe(32)}"
            stream.seek(0)
            stream.truncate()
            stream.write(f"{key}\n")
        os.fchmod(stream.fileno(), 0o600)
    return key


def home_key_for(home: Path, server: str) -> str | None:
    """Return the home's key when a server of this user listens at that loopback address, else None.

    Any user of the machine may listen on a free port, and must not be sent the key.
    """
    key = home_key(home) if _is_of_this_user(server) else None
    return None if key is None else HomeKey(key)


def may_go_to(key: str, url: str) -> bool:
    """Return whether a key may be sent to an address now: the home's own only while a server of
    this user listens there, since another may have taken the port meanwhile.
    """
    return not isinstance(key, HomeKey) or _is_of_this_user(url)


def is_loopback(server: str) -> bool:
    """Return True for an address of this machine, such as http://127.0.0.1:8642.

    Short, decimal and IPv6-mapped forms count as well: the resolver reads them as the same address.
    """
    host = urlsplit(server).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761, section 6.3
        return True
    try:
        address = ip_address(host)
    except ValueError:
        from socket import inet_aton  # only another spelling pays

        try:
            address = ip_address(inet_aton(host))  # 127.1, 2130706433
        except (OSError, UnicodeError):
            return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_of_this_user(server: str) -> bool:
    parts = urlsplit(server)
    try:
        port = parts.port or 80
    except ValueError:
        return False
    return parts.scheme == "http" and is_loopback(server) and _is_mine(port)


def _is_mine(port: int, root: Path = Path("/proc/net")) -> bool:
    """Tell whether every socket that listens on the port is this user's (proc(5), /proc/net/tcp).

    Where the system does not say, such as on macOS, it counts as this user's.
    """
    owners = set()
    for table in ("tcp", "tcp6"):
        for line in (files.text_of(root / table) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and fields[3] == _LISTEN and fields[1].endswith(f":{port:04X}"):
                owners.add(fields[7])
    return owners <= {str(os.getuid())}


def stored_key(folder: Path, server: str) -> str | None:
    """Return the key that was stored for a server, the same address to the letter; else None."""
    key = _stored(folder).get(server)
    return key if isinstance(key, str) and key else None


def store_key(folder: Path, server: str, key: str) -> Path:
    """Keep a key for a server in place of the one before, and return the file; raises OSError."""
    files.folder(folder)
    lines = {**_stored(folder), server: key}.items()
    text = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in lines)
    files.replace_text(folder / STORED_FILE, text)
    return folder / STORED_FILE


def _stored(folder: Path) -> dict[str, object]:
    import tomllib  # most processes never read such a file

    try:
        return tomllib.loads(files.text_of(folder / STORED_FILE) or "")
    except ValueError:
        return {}
