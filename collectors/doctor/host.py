"""The host: operating system, RAPL, codecarbon, the container's share, clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from gramwatt.collectors.common.installation import install_command
from gramwatt.collectors.common.platform import MACOS, refused
from gramwatt.collectors.doctor.finding import Finding, State, Target
from gramwatt.collectors.host.codecarbon import reads_more
from gramwatt.collectors.host.machine import this_machine
from gramwatt.collectors.host.rapl import POWERCAP, find_counters, read_counters
from gramwatt.collectors.host.source import RAM
from gramwatt.sci.base.host_model import CPU_MODEL, RAM_MODEL
from gramwatt.sci.base.units import gib_from_bytes

PAUSE_S = 0.05
"""Long enough for a counter that is renewed every millisecond to move."""
UNMASK = (
    "start the container with `--security-opt systempaths=unconfined` (Docker)\n"
    "or with `--security-opt unmask=/sys/devices/virtual/powercap` (Podman)\n"
    "and on the host, not in the container:\n"
)
"""Container engines mask the powercap tree (GHSA-jq35-85cj-fj4p)."""
CHMOD = (
    "sudo chmod a+r {root}/*/energy_uj\n"
    "(until the host's next boot; docs/measuring.md has the line for good)"
)


def system(target: Target) -> Finding:
    """Return what this kind of operating system can and cannot do."""
    text = refused(target.place.platform)
    if text:
        return Finding("system", "missing", text, "wsl --install, then install gramwatt there")
    if target.place.platform == "darwin":
        return Finding("system", "limited", f"macOS: {MACOS}")
    if target.place.platform != "linux":
        text = f"{target.place.platform} is not supported; the checks below show what works here"
        return Finding("system", "limited", text)
    where = "in a container" if target.in_container else "no container"
    machine = "a virtual machine" if target.in_virtual_machine else "no hypervisor seen"
    return Finding("system", "ok", f"Linux, {where}, {machine}")


def rapl(target: Target, wait: Callable[[float], None] = time.sleep) -> Finding:
    """Check that the processor's energy counters exist, can be read and advance."""
    if target.place.platform != "linux":
        return Finding("RAPL", "absent", "only Linux lets programs read the processor's counters")
    source = target.environ.get("GRAMWATT_HOST_SOURCE")
    if source in ("model", "codecarbon"):
        text = f"not read directly: GRAMWATT_HOST_SOURCE={source}"
        return Finding("RAPL", "off", text, "unset GRAMWATT_HOST_SOURCE")
    root = target.root / POWERCAP.relative_to("/")
    found = find_counters(root)
    if found.denied:
        return _denied(target, root, len(found.denied))
    if not found.usable:
        return _without(target, root)
    before = read_counters(found.domains)
    wait(PAUSE_S)
    after = read_counters(found.domains)
    names = [domain.name for domain in found.domains]
    still = [name for name in names if before.get(name) == after.get(name)]
    if any("/" not in name for name in still):
        text = f"{', '.join(still)} stands still, as in some virtual machines; CPU is estimated"
        return _estimated("RAPL", "limited", text)
    detail = f"{', '.join(names)} readable and read directly, from the job's first moment"
    return Finding("RAPL", "ok", detail, None, "measured")


def _denied(target: Target, root: Path, count: int) -> Finding:
    detail = (
        f"{count} package counter{'s' if count > 1 else ''} may be read by root only (the kernel's "
        "default since 5.10); CPU power is estimated"
    )
    fix = (UNMASK if target.in_container else "") + CHMOD.format(root=root)
    return _estimated("RAPL", "limited", detail, fix)


def _without(target: Target, root: Path) -> Finding:
    if target.in_virtual_machine:
        text = (
            "a virtual machine cannot read the processor's counters; CPU power is estimated. Only "
            "bare metal has them"
        )
        return _estimated("RAPL", "missing", text)
    if target.in_container:
        text = "container engines hide the processor's counters; CPU power is estimated"
        return _estimated("RAPL", "missing", text, UNMASK + CHMOD.format(root=root))
    text = "no energy counters of the CPU; its power is estimated"
    fix = "sudo modprobe intel_rapl_common intel_rapl_msr   (Intel, and AMD since Zen)"
    return _estimated("RAPL", "missing", text, fix)


def _estimated(
    what: str, state: State, detail: str, fix: str | None = None, model: str = CPU_MODEL
) -> Finding:
    """Return a finding on a source without which a model gives the energy."""
    return Finding(what, state, detail, fix, "estimated", model)


def codecarbon(target: Target) -> Finding:
    """Check whether codecarbon reads a counter that gramwatt does not, and is installed then."""
    setting = target.environ.get("GRAMWATT_HOST_SOURCE")
    if setting == "model":
        text = "switched off by GRAMWATT_HOST_SOURCE=model: the host's energy is a model's"
        return _estimated("codecarbon", "off", text, "unset GRAMWATT_HOST_SOURCE")
    found = find_counters(target.root / POWERCAP.relative_to("/"))
    if reads_more(setting, found.usable, target.root):
        if find_spec("codecarbon") is None:
            text = "not installed: it would read a counter that gramwatt does not"
            return _estimated("codecarbon", "missing", text, install_command("host"))
        return Finding("codecarbon", "ok", "installed, and its counters are used")
    if found.of(RAM):
        return Finding("codecarbon", "ok", "not needed: RAPL gives CPU and memory")
    component, model = ("memory", RAM_MODEL) if found.usable else ("CPU and memory", CPU_MODEL)
    text = f"not needed: it reads no counter of {component} here, whose power is estimated"
    return _estimated("codecarbon", "ok", text, None, model)


def trackers() -> list[Finding]:
    """Report tools that start codecarbon by themselves once it is installed, beside our meter.

    `TrainingArguments.report_to="all"`, the default of transformers 4, uses every integration whose
    package is installed (transformers 4.51, Callbacks); Comet's `auto_log.co2` is on (comet_ml
    3.58).
    """
    if find_spec("codecarbon") is None:
        return []
    starts = "starts codecarbon in the training process as well, because it is installed: it takes "
    starts += "time and memory there and writes emissions.csv"
    fixes = {
        "transformers": (
            f'report_to="all", the default of transformers 4, {starts}',
            'TrainingArguments(report_to="none"), or the list of those you use: ["wandb"]',
        ),
        "comet_ml": (f"Comet {starts}", "switch comet.auto_log.co2 off in its settings"),
    }
    names = {"transformers": "HF Trainer", "comet_ml": "Comet"}
    return [
        Finding(names[package], "limited", *fix)
        for package, fix in fixes.items()
        if find_spec(package) is not None
    ]


_NO_LIMIT = (
    "no limit: a job is billed its own processor time and memory, and idle power, which the jobs "
    "of a moment share"
)


def cgroup(target: Target) -> Finding:
    """Return which part of the host a job here may use, and is billed for."""
    machine = this_machine(target.root / "proc", target.root / "sys/fs/cgroup")
    if machine.threads is None or machine.memory_b is None or machine.memory_total_b is None:
        return Finding("host share", "limited", "threads or memory of this host are not known")
    threads = f"{machine.threads:g} of {machine.threads_total:g} threads"
    memory, total = (gib_from_bytes(b) for b in (machine.memory_b, machine.memory_total_b))
    detail = f"{threads} and {memory:.1f} of {total:.1f} GiB: "
    if machine.cpu_share == 1 and machine.memory_share == 1:
        return Finding("host share", "ok", f"{detail}{_NO_LIMIT}")
    text = detail + "the limits of this cgroup; the host's energy is billed by these shares"
    return Finding("host share", "ok", text, None, "attributed")


def clocks(target: Target) -> Finding:
    """Check that suspended time is counted, and a killed meter's readings can be continued."""
    lacks = []
    if not hasattr(time, "CLOCK_BOOTTIME"):
        lacks.append("no clock that counts suspended time: a suspend looks shorter than it was")
    if not (target.root / "proc/sys/kernel/random/boot_id").exists():
        lacks.append("no boot id: a killed meter's counters are not continued, only its journal")
    if lacks:
        return Finding("clock", "limited", "; ".join(lacks))
    return Finding("clock", "ok", "boot clock and boot id are here")
