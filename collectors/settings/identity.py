"""The machine, node and user of this process, and what ids look like, without a subprocess.

Imported by the training process too, so it needs `os`, `time` and `binascii` only.
"""

from __future__ import annotations

import os
import sys
import time
from binascii import crc32

from gramwatt.collectors.settings.proc import boot_id, pid_namespace, system_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ID_LENGTH = 128
"""Longest identifier a journal record may carry (gramwatt.sci.records.records.ID_PATTERN)."""
LAST = "last"
NAMES = ("job", "slurm")
"""Tags that hold what a person or a scheduler calls a job."""
RUNS = 5
"""Runs that a name stands for where several can be compared, the newest."""
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:~-")


def new_job_id() -> str:
    """Return a new id that sorts by time and can be read: 20260501-083000-3fa9c21b04d7."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + os.urandom(6).hex()


def safe_id(text: str, most: int = ID_LENGTH) -> str:
    """Return `text` as an identifier; a checksum keeps one that had to change distinct."""
    clean = "".join(char if char in _SAFE else "-" for char in text)
    if not clean[:1].isalnum():
        clean = "j" + clean
    if clean == text and len(clean) <= most:
        return clean
    return f"{clean[: most - 9]}-{crc32(text.encode('utf-8', 'surrogateescape')):08x}"


BOUND_MARK, SUM_LENGTH = "~", 8
"""What stands before the checksum of an id that is bound to a project, and how long that is."""


def bound_id(text: str, project: str) -> str:
    """Return the id of the job that a person or a scheduler calls `text`, in a project.

    It ends in a checksum of the project: those who choose one text for two projects have two jobs.
    """
    return f"{safe_id(text, ID_LENGTH - SUM_LENGTH - 1)}{BOUND_MARK}{_sum_of(project)}"


def chosen_part(name: str) -> str:
    """Return what a person or a scheduler calls the job of an id that is bound; else empty."""
    text, _, end = name.rpartition(BOUND_MARK)
    return text if len(end) == SUM_LENGTH else ""


def is_random(name: str) -> bool:
    """Return whether an id has the form that `new_job_id` gives, which nobody can guess."""
    day, _, rest = name.partition("-")
    second, _, random = rest.partition("-")
    sizes = len(day), len(second), len(random)
    return sizes == (8, 6, 12) and (day + second).isdecimal() and random.isalnum()


def is_made(name: str) -> bool:
    """Say whether this is an id as gramwatt makes them, rather than a text to make one of."""
    return safe_id(name) == name and (is_random(name) or bool(chosen_part(name)))


def is_bound_to(name: str, project: str) -> bool:
    """Say whether an id is bound to this project."""
    return bool(chosen_part(name)) and name.endswith(_sum_of(project))


def _sum_of(project: str) -> str:
    return hashed("", f"project {project}")[:SUM_LENGTH]


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
    data = text.encode("utf-8", "surrogateescape")
    return prefix + str(_hash_module().sha256(data).hexdigest())[:12]


def _hash_module() -> Any:
    """Return what has SHA-256: Python's own, which an interpreter may be built without.

    `hashlib` loads OpenSSL, 3.5 MB in every meter.
    """
    try:
        return __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        return __import__("hashlib")


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
