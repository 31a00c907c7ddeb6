"""What this host is and what part of it the job may use: /proc, /sys and the cgroup."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from gramwatt.collectors.devices.board import graphics_in_processor
from gramwatt.collectors.settings.files import text_of

CPU, RAM = "cpu", "ram"
HYPERVISORS = re.compile(
    r"\b(KVM|QEMU|OpenStack|KubeVirt|Amazon EC2|Google Compute Engine|VMware|VirtualBox|Xen|Bochs"
    r"|innotek|Parallels|BHYVE|AHV|Apple Virtualization|Virtual Machine|Alibaba Cloud|CVM|Droplet"
    r"|vServer|WSL2)\b",
    re.IGNORECASE,
)
"""How firmware names the makers of virtual machines in its tables (DMI), as systemd knows them, and
the kernel of the Windows Subsystem for Linux, which shows no tables, itself."""
BARE_METAL = re.compile(r"metal", re.IGNORECASE)
"""A whole machine of a cloud, such as c7g.metal, whose tables name the cloud too."""
DMI = ("sys_vendor", "product_name", "bios_vendor")
MOUNTS = ("", "cpu,cpuacct", "cpu", "cpuacct", "cpuset", "memory", "unified")
"""Folders of cgroups: of version 2, of version 1, and of version 2 beside that."""
LXCFS = re.compile(r"^\S+ /proc/\w+ fuse\.lxcfs ", re.MULTILINE)
"""A mount that shows a container of LXC its own processors and memory as if they were all."""
NO_LIMIT_B = 2**60
"""Version 1 writes no limit as the largest whole page of 63 bits."""


class Machine(Struct, frozen=True):
    """CPU model, hardware threads and memory [B] of the host, and the job's part of them.

    Where it may not use all threads, `limit` is the cgroup folder that says so, and `usage` the one
    that counts the processor time of the same group. Whatever could not be found out is None.
    """

    cpu_name: str | None
    threads_total: float | None
    threads: float | None
    memory_total_b: float | None
    memory_b: float | None
    limit: Path | None = None
    usage: Path | None = None
    virtual: bool = False
    """Whether it is a virtual machine, by the processor, the firmware or the device tree."""
    sockets: int | None = None
    """Processor packages; None where that is not known, as in a virtual machine or under lxcfs."""
    graphics: bool = False
    """Whether the job may use graphics inside the processor."""

    @property
    def pool(self) -> str:
        """A name of the threads that the job may use: of its cgroup where one limits them.

        Empty for the whole host. Containers see their folders under one path, so it has a number.
        """
        if self.limit is None:
            return ""
        try:
            return f"-{self.limit.stat().st_ino}"
        except OSError:
            return "-limited"

    def facts(self, component: str) -> dict[str, Any]:
        """Return what the device record of `cpu` or `ram` says of it."""
        if component == RAM:
            return {"name": "memory", "memory_b": self.memory_b}
        return {
            "name": self.cpu_name or "unknown CPU",
            "units": self.threads,
            "units_total": self.threads_total,
            "virtual": self.virtual,
        }

    @property
    def cpu_share(self) -> float:
        """The job's part of the CPU (0, 1]; 1 when nothing limits it."""
        return _share(self.threads, self.threads_total)

    @property
    def memory_share(self) -> float:
        """The job's part of the memory (0, 1]; 1 when nothing limits it."""
        return _share(self.memory_b, self.memory_total_b)


def this_machine(root: Path = Path("/")) -> Machine:
    """Return the host as the job sees it, limits of its cgroup and of those above included.

    CPU affinity is not a limit here: ranks bind themselves to cores of what they all reserved.
    """
    proc, cgroup = root / "proc", root / "sys/fs/cgroup"
    folders = _cgroup_folders(proc, cgroup)
    covered = bool(LXCFS.search(text_of(proc / "self/mounts") or ""))
    # `os.cpu_count` is the affinity under musl, and what PYTHON_CPU_COUNT says.
    threads_there = root / "sys/devices/system/cpu" / ("present" if covered else "online")
    total = _count(text_of(threads_there) or "") or os.cpu_count()
    shown_b = _memory_total_b(proc)
    memory_total_b = (_installed_b() if covered else None) or shown_b
    limits = {folder: _least(_quota_threads(folder), _cpuset_threads(folder)) for folder in folders}
    threads = _least(total, *limits.values())
    memory_b = _least(memory_total_b, shown_b, *map(_memory_limit_b, folders))
    limit = usage = None
    if total and threads and threads < total:
        narrowest = [folder for folder in folders if limits[folder] == threads]
        limit = narrowest[0] if narrowest else None
        # Version 1 counts the time of a group in another folder than the one with its CPU set.
        groups = {folders[folder] for folder in narrowest}
        same = (folder for folder in folders if folders[folder] in groups)
        usage = next(filter(_counts_time, same), None)
    virtual = is_virtual(root)
    return Machine(
        _cpu_name(proc),
        float(total) if total else None,
        threads,
        memory_total_b,
        memory_b,
        limit,
        usage,
        virtual,
        None if virtual or covered else _sockets(root),
        graphics_in_processor(root),
    )


def is_virtual(root: Path = Path("/")) -> bool:
    """Return whether this is a virtual machine.

    On x86 the processor says so; elsewhere the tables of the firmware or the device tree do.
    """
    if " hypervisor" in (text_of(root / "proc/cpuinfo") or ""):
        return True
    dmi = {name: text_of(root / "sys/class/dmi/id" / name) or "" for name in DMI}
    kernel = text_of(root / "proc/sys/kernel/osrelease") or ""
    if HYPERVISORS.search(" / ".join([*dmi.values(), kernel])):
        return not BARE_METAL.search(dmi["product_name"])
    tree = root / "proc/device-tree"
    made_for = text_of(tree / "compatible") or ""
    return (
        (tree / "hypervisor").exists()
        or "dummy-virt" in made_for  # of QEMU, Firecracker and others
        or any(tree.glob("fw-cfg@*"))
        or bool(text_of(root / "sys/hypervisor/type"))
    )


def _share(part: float | None, whole: float | None) -> float:
    return min(1.0, part / whole) if part and whole else 1.0


def _least(*values: float | None) -> float | None:
    limits = [value for value in values if value]
    return float(min(limits)) if limits else None


def _cgroup_folders(proc: Path, root: Path) -> dict[Path, tuple[str, ...]]:
    """Return this process's cgroup folders and all above them, of version 2 and of version 1, each
    with the name of its group.

    Version 1 mounts cpu and cpuacct together, mostly with links of either name; version 2 may be
    mounted beside it as `unified`. A container sees its own folder as the root of each.
    """
    folders: dict[Path, tuple[str, ...]] = {root / name: () for name in MOUNTS}
    for line in (text_of(proc / "self" / "cgroup") or "").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        names = [controllers, *controllers.split(",")] if controllers else ["", "unified"]
        parts = tuple(part for part in path.split("/") if part and part != "..")
        folders |= {
            (root / name).joinpath(*parts[: depth + 1]): parts[: depth + 1]
            for name in dict.fromkeys(names)
            for depth in range(len(parts))
        }
    return folders


def _quota_threads(folder: Path) -> float | None:
    version_1 = (text_of(folder / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    quota = (text_of(folder / "cpu.max") or " ".join(version_1)).split()
    if len(quota) != 2 or not all(map(str.isdecimal, quota)) or int(quota[1]) == 0:
        return None  # "max", or -1 in version 1: no limit
    return int(quota[0]) / int(quota[1])


def _cpuset_threads(folder: Path) -> float | None:
    names = ("cpuset.cpus.effective", "cpuset.cpus")
    return _count(next(filter(None, (text_of(folder / name) for name in names)), ""))


def _count(text: str) -> float | None:
    """Return how many processors a list such as `0-3,8` names; None without any."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            count += int(last or first) - int(first) + 1
    return count or None


def _counts_time(folder: Path) -> bool:
    usage = text_of(folder / "cpuacct.usage") or text_of(folder / "cpu.stat") or ""
    return usage.isdecimal() or "usage_usec" in usage


def _memory_limit_b(folder: Path) -> float | None:
    text = text_of(folder / "memory.max") or text_of(folder / "memory.limit_in_bytes") or ""
    above = text_of(folder / "memory.stat") or ""  # version 1: limits of folders we cannot see
    of_groups = [
        line.split()[1] for line in above.splitlines() if line.startswith("hierarchical_memory_l")
    ]
    limits = [int(value) for value in (text, *of_groups) if value.isdecimal()]
    return min((limit for limit in limits if 0 < limit < NO_LIMIT_B), default=None)


def _memory_total_b(proc: Path) -> float | None:
    for line in (text_of(proc / "meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024.0
    return _installed_b()


def _installed_b() -> float | None:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        return None


def _sockets(root: Path) -> int | None:
    text = text_of(root / "proc/cpuinfo") or ""
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE))
    if not packages:  # ARM
        threads = (root / "sys/devices/system/cpu").glob("cpu[0-9]*")
        packages = {text_of(thread / "topology/physical_package_id") for thread in threads} - {None}
    return len(packages) or None


def _cpu_name(proc: Path) -> str | None:
    for line in (text_of(proc / "cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model" or key.strip().lower() in ("model name", "cpu model", "cpu"):
            return value.strip()[:512] or None
    return os.uname().machine or None
