"""The host: operating system, RAPL, codecarbon, the container's share, clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

from gramwatt.collectors.doctor.finding import Finding, State, Target
from gramwatt.collectors.host.codecarbon import HOST_SOURCE, reads_more
from gramwatt.collectors.host.machine import CPU, RAM, is_virtual, this_machine
from gramwatt.collectors.host.model import power_of
from gramwatt.collectors.host.rapl import POWERCAP, Counters, find_counters, read_counters
from gramwatt.collectors.settings.installation import install_command
from gramwatt.collectors.settings.platform import MACOS, refused
from gramwatt.sci.figures.host_model import CPU_MODEL, CPU_MODEL_UNLIKE, RAM_MODEL
from gramwatt.sci.figures.units import gib_from_bytes

X86 = ("x86_64", "AMD64", "i686")
PAUSE_S = 0.05
"""Long enough for a counter that is renewed every millisecond to move."""
UNMASK = (
    "start the container with `--security-opt systempaths=unconfined` (Docker)\n"
    "or with `--security-opt unmask=/sys/devices/virtual/powercap` (Podman)\n"
    "and on the host, not in the container:\n"
)
"""Container engines mask the powercap tree (GHSA-jq35-85cj-fj4p)."""
UNTIL_BOOT = "\n(until the host's next boot; docs/measuring.md has the line for good)"


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
    kind = "a virtual machine" if is_virtual(target.root) else "no hypervisor seen"
    return Finding("system", "ok", f"Linux, {where}, {kind}")


def rapl(target: Target, wait: Callable[[float], None] = time.sleep) -> Finding:
    """Check that the processor's energy counters exist, can be read and advance."""
    if target.place.platform != "linux":
        return Finding("RAPL", "absent", "only Linux lets programs read the processor's counters")
    source = target.environ.get(HOST_SOURCE)
    if source in ("model", "codecarbon"):
        text = f"not read directly: {HOST_SOURCE}={source}"
        return Finding("RAPL", "off", text, f"unset {HOST_SOURCE}")
    root = target.root / POWERCAP.relative_to("/")
    counters = find_counters(root)
    if not counters.usable:
        return _unread(target, root, counters)
    before = read_counters(counters.domains)
    wait(PAUSE_S)
    after = read_counters(counters.domains)
    names = [domain.name for domain in counters.domains]
    still = [name for name in names if before.get(name) == after.get(name)]
    if any("/" not in name for name in still):
        text = f"{', '.join(still)} stands still, as in some virtual machines"
        return _estimated(target, "RAPL", "limited", text)
    detail = f"{', '.join(names)} readable and read directly, from the job's first moment"
    if paths := counters.denied_of(RAM):
        text = f"{counters.denied_text(RAM)}, so that its power is estimated; {detail}"
        return Finding("RAPL", "limited", text, _permit(root, paths), "measured")
    return Finding("RAPL", "ok", detail, None, "measured")


def _permit(root: Path, paths: Iterable[Path]) -> str:
    names = sorted({path.name for path in paths})
    return f"sudo chmod a+r {' '.join(f'{root}/*/{name}' for name in names)}{UNTIL_BOOT}"


def _unread(target: Target, root: Path, counters: Counters) -> Finding:
    unmask = UNMASK if target.in_container else ""
    if paths := counters.denied_of(CPU):
        text = f"{counters.denied_text(CPU)} (kernels since 5.10 let only root read the counters)"
        return _estimated(target, "RAPL", "limited", text, unmask + _permit(root, paths))
    if is_virtual(target.root):
        text = "a virtual machine cannot read the processor's counters. Only bare metal has them"
        return _estimated(target, "RAPL", "missing", text)
    if target.place.machine not in X86:
        text = f"{target.place.machine} processors have no such counters"
        return _estimated(target, "RAPL", "missing", text)
    if unmask:
        text = "container engines hide the processor's counters"
        fix = f"{unmask}sudo chmod a+r {root}/*/energy_uj{UNTIL_BOOT}"
        return _estimated(target, "RAPL", "missing", text, fix)
    fix = "sudo modprobe intel_rapl_common intel_rapl_msr   (Intel, and AMD since Zen)"
    return _estimated(target, "RAPL", "missing", "no energy counters of the CPU", fix)


def _estimated(
    target: Target, what: str, state: State, detail: str, fix: str | None = None
) -> Finding:
    """Return a finding on a counter of the processor without which its model gives the energy."""
    machine = this_machine(target.root)
    power = power_of(machine)
    meter = power.meter if power else CPU_MODEL
    text = f"{detail}; CPU power is estimated"
    text += ", by a model whose evidence is of other processors" * (meter == CPU_MODEL_UNLIKE)
    text += ", without the graphics inside the processor" * machine.graphics
    return Finding(what, state, text, fix, "estimated", meter)


def codecarbon(target: Target) -> Finding:
    """Check whether codecarbon reads a counter that gramwatt does not, and is installed then."""
    setting = target.environ.get(HOST_SOURCE)
    if setting and setting not in ("model", "codecarbon"):
        text = f"{setting} is not a valid {HOST_SOURCE}: it is ignored"
        fix = f"unset {HOST_SOURCE}, or set it to model or codecarbon"
        return Finding("codecarbon", "limited", text, fix)
    if setting == "model":
        text = f"switched off by {HOST_SOURCE}=model: the host's energy is a model's"
        return Finding("codecarbon", "off", text, f"unset {HOST_SOURCE}", "estimated", CPU_MODEL)
    counters = find_counters(target.root / POWERCAP.relative_to("/"))
    if reads_more(setting, counters.usable, target.root):
        if find_spec("codecarbon") is None:
            text = "not installed: it would read a counter that gramwatt does not"
            fix = install_command("host")
            return Finding("codecarbon", "missing", text, fix, "estimated", CPU_MODEL)
        return Finding("codecarbon", "ok", "installed, and its counters are used")
    if counters.of(RAM):
        return Finding("codecarbon", "ok", "not needed: RAPL gives CPU and memory")
    part, model = ("memory", RAM_MODEL) if counters.usable else ("CPU and memory", CPU_MODEL)
    text = f"not needed: it reads no counter of {part} here, whose power is estimated"
    return Finding("codecarbon", "ok", text, None, "estimated", model)


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
    machine = this_machine(target.root)
    if machine.threads is None or machine.memory_b is None or machine.memory_total_b is None:
        return Finding("host share", "limited", "threads or memory of this host are not known")
    threads = f"{machine.threads:g} of {machine.threads_total:g} threads"
    memory, total = (gib_from_bytes(b) for b in (machine.memory_b, machine.memory_total_b))
    detail = f"{threads} and {memory:.1f} of {total:.1f} GiB: "
    if machine.cpu_share == 1 and machine.memory_share == 1:
        return Finding("host share", "ok", f"{detail}{_NO_LIMIT}")
    text = detail + "the limits of this cgroup; idle power and memory are billed by these shares"
    return Finding("host share", "ok", text, None, "attributed")


def locks(home: Path) -> Finding:
    """Check that jobs that run at the same time see each other, by their locks."""
    from gramwatt.collectors.devices.shared_board import folders, why_unlockable  # not on Windows

    first, second = (why_unlockable(folder) for folder in folders(home))
    if first and second:
        text = f"no file can be locked in {home} ({first}): jobs at the same time do not see each "
        text += "other, and what they share is billed to each of them whole"
        return Finding("locks", "limited", text, "set GRAMWATT_HOME to a local disk")
    where = "the temporary directory" if first else str(home)
    return Finding("locks", "ok", f"jobs at the same time see each other, by files in {where}")
