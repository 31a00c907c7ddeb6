"""The key of the server of one home: made by `gramwatt serve`, read by this user's commands."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from gramwatt.collectors.common import files, stored_keys
from gramwatt.collectors.common.config import Config, is_loopback, user_file

NAME = "server.key"
_LISTEN = "0A"
"""State of a listening socket (Linux, include/net/tcp_states.h)."""
PREFIX = "gw_server_"
"""How the key begins; a key that a person made has its own visible part in place of `server`."""


class HomeKey(str):
    """The key of a home, which its reader took and nobody set: for servers of this user alone."""

    __slots__ = ()


def read(home: Path) -> str | None:
    """Return the key in the home; None when there is none, or none that this user may read."""
    text = files.text_of(home / NAME)
    return text if text and text.startswith(PREFIX) else None


def key_for(config: Config, home: Path, server: str) -> str | None:
    """Return the key to send to a server: the configured one for the configured server only, else
    one stored for it, or the home's own where it is that server's; None when there is none.
    """
    own = config.api_key if server == config.server else None
    stored = stored_keys.key_for(user_file(os.environ).parent, server)
    return own or stored or for_server(home, server)


def for_server(home: Path, server: str) -> str | None:
    """Return the home's key when a server of this user listens at that loopback address, else None.

    Any user of the machine may listen on a free port, and must not be sent the key.
    """
    key = read(home) if _is_of_this_user(server) else None
    return None if key is None else HomeKey(key)


def may_go_to(key: str, url: str) -> bool:
    """Return whether a key may be sent to an address now: the home's own only while a server of
    this user listens there, since another may have taken the port meanwhile.
    """
    return not isinstance(key, HomeKey) or _is_of_this_user(url)


def _is_of_this_user(server: str) -> bool:
    found = urlsplit(server)
    try:
        port = found.port or 80
    except ValueError:
        return False
    return found.scheme == "http" and is_loopback(server) and _is_mine(port)


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


def ensure(home: Path) -> str:
    """Return the key in the home, made at first: random, 256 bit, in a file of mode 0600.

    Of several processes that make one at once, the first wins: each holds the file's lock from
    reading to writing. Raises OSError.
    """
    import fcntl  # Windows has none, and `gramwatt doctor` runs there too

    files.folder(home)
    descriptor = files.opener(str(home / NAME), os.O_RDWR | os.O_CREAT)
    with open(descriptor, "r+", encoding="ascii", errors="replace") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        key = stream.read().strip()
        if not key.startswith(PREFIX):
            key = f"{PREFIX}{secrets.token_urlsafe(32)}"
            stream.seek(0)
            stream.truncate()
            stream.write(f"{key}\n")
        os.fchmod(stream.fileno(), 0o600)
    return key
