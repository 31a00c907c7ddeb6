"""The node, rank and scheduler of this process, and what ids look like, without a subprocess.

Imported by the training process too, so it needs `os`, `time` and `binascii` only.
"""

from __future__ import annotations

import os
import time
from binascii import crc32

from gramwatt.collectors.common.proc import boot_id, pid_namespace, system_text

ID_LENGTH = 128
"""Longest identifier a journal record may carry (gramwatt.sci.journal.records.ID_PATTERN)."""
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


def new_job_id() -> str:
    """Return a new id that sorts by time and can be read: 20260501-083000-3fa9c21b04d7."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + os.urandom(6).hex()


def safe_id(text: str) -> str:
    """Return `text` as an identifier; a checksum keeps one that had to change distinct."""
    clean = "".join(char if char in _SAFE else "-" for char in text)
    if not clean[:1].isalnum():
        clean = "j" + clean
    if clean == text and len(clean) <= ID_LENGTH:
        return clean
    return f"{clean[: ID_LENGTH - 9]}-{crc32(text.encode('utf-8', 'surrogateescape')):08x}"


def node_id(allow_host_names: bool = False) -> str:
    """Return a short id of what one meter can see: hashed, or the host's name if allowed.

    Machines made from one image have one machine id, but each boot has an id of its own. Containers
    of one host are nodes of their own unless they share its name and processes: the meter of one
    has no access to the devices of another.
    """
    if allow_host_names:
        return safe_id(host_name() or "unnamed")
    return hashed("n-", seen_by_a_meter())


def seen_by_a_meter() -> str:
    """Return what tells the processes that one meter can see from all others."""
    return " ".join((boot_id() or _machine(), host_name(), pid_namespace()))


def kernel_id() -> str:
    """Return a short hashed id of this machine until its next boot, alike in its containers."""
    return hashed("k-", boot_id() or _machine())


def machine_id() -> str:
    """Return a short hashed id of this machine that stays the same when it boots again.

    Not for telling machines apart: those made from one image may have the same.
    """
    return hashed("m-", _machine())


def hashed(prefix: str, text: str) -> str:
    """Return 12 digits that stand for a text, behind the prefix."""
    from hashlib import sha256  # not at import: it loads OpenSSL, and the client never asks

    return prefix + sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _machine() -> str:
    return system_text("/etc/machine-id").strip() or host_name() or "unnamed"


def user_id(allow_names: bool = False) -> str:
    """Return a short stable id of this user on this machine: hashed, or the name if allowed."""
    name = user_name()
    return name if allow_names else hashed("u-", f"{_machine()} {name}")


def user_name() -> str:
    """Return this user's login name, or the number of a user without one."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user that no file names
        return str(os.getuid())


def host_name() -> str:
    """Return the machine's name as the kernel has it; empty when it has none."""
    try:
        return os.uname().nodename
    except (AttributeError, OSError):
        return ""
