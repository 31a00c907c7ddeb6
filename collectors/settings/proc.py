"""What the system says of processes, mostly out of /proc: proc(5).

Nothing raises for a process that has ended or is another user's, or where there is no /proc.
Imported by the training process too, so standard library only.
"""

from __future__ import annotations

import os

PARENT, BEGAN = 1, 19
"""Places of a process's parent and of its begin [ticks since boot] among its fields."""
PAGE_B = 4096
"""More than a `stat` or `statm` of /proc has."""
REAPERS = frozenset({"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit"})
"""Names of processes that inherit orphans without being process 1, as `systemd --user` does."""
_NS_PER_S = 1_000_000_000

GPU_FILES = "/dev/nvidia"
"""Under this name a process tells the job's meter which files of GPUs it may open."""


def openable_gpus(folder: str = "/dev") -> str:
    """Return the numbers of NVIDIA's GPUs whose files this process may open, such as `0,3`: a
    scheduler may give each task of a job a file of its own.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return ""
    gpus = (name for name in names if name[:6] == "nvidia" and name[6:].isdecimal())
    own = (name[6:] for name in gpus if os.access(f"{folder}/{name}", os.R_OK | os.W_OK))
    return ",".join(sorted(own))


def fields_of(pid: int, proc: str = "/proc") -> list[str]:
    """Return the fields of a process's `stat` behind its name, from its state on."""
    try:
        text = page_of(f"{proc}/{pid}/stat").decode("utf-8", "surrogateescape")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def parent_of(pid: int, proc: str = "/proc") -> int:
    """Return a process's parent; 0 where it is not known."""
    fields = fields_of(pid, proc)
    return int(fields[PARENT]) if len(fields) > PARENT else 0


def name_of(pid: int) -> str:
    """Return the name of a process, at most 15 characters; empty where it is not known."""
    return system_text(f"/proc/{pid}/comm").strip()


def reaps(pid: int) -> bool:
    """Tell whether the children of this process may be orphans of others: prctl(2)."""
    return pid == 1 or name_of(pid) in REAPERS


def began_of(pid: int) -> str:
    """Return a process's begin, which no other of its number shares; empty where not known."""
    fields = fields_of(pid)
    return fields[BEGAN] if len(fields) > BEGAN else ""


def process_start_ns(pid: int) -> int | None:
    """Return when a process began by the boot clock [ns]; None for one that cannot be read."""
    fields = fields_of(pid)
    if len(fields) <= BEGAN or fields[0] in "ZX":  # ended, and not collected by its parent yet
        return None
    return int(fields[BEGAN]) * _NS_PER_S // os.sysconf("SC_CLK_TCK")


def environ_of(pid: int, proc: str = "/proc") -> list[str]:
    """Return the variables `NAME=value` with which a process began, fit for a journal."""
    return system_text(f"{proc}/{pid}/environ", "replace").split("\0")


def process_exists(pid: int) -> bool:
    """Tell whether this process is there, also another user's or one just ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def boot_id() -> str:
    """Return the kernel's id of this boot; empty without one, so that nothing is resumed."""
    return system_text("/proc/sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """Return which processes this one sees: namespaces(7); empty where the system does not say."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def system_text(path: str, errors: str = "surrogateescape") -> str:
    """Return a file of the system as text; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors=errors) as stream:
            return stream.read()
    except OSError:
        return ""


def page_of(path: str) -> bytes:
    """Return what a file of the system begins with, at most PAGE_B; raises OSError.

    The meter reads many of them: `open` takes three times as long.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, PAGE_B)
    finally:
        os.close(descriptor)
