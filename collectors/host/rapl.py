"""RAPL: the processor's own energy counters, read from Linux's powercap tree.

The counters start at once and cost a file read, where codecarbon takes seconds to begin. They wrap
at `max_energy_range_uj`, so they are read at least once a minute. Kernels since 5.10 let only root
read them (CVE-2020-8694), and container engines hide the tree (GHSA-jq35-85cj-fj4p).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.common.files import text_of
from gramwatt.sci.base.units import j_from_uj

POWERCAP = Path("/sys/class/powercap")
MOST_W = 1_000.0
"""More than any package draws: over twice the highest rating in the catalog of CPUs (385 W)."""
POLL_S = 30.0
"""Half of the minute in which the smallest counters (65 kJ, AMD's 15.3 uJ in 32 bits) may wrap at
that power."""
STILL_S = 1.0
"""A counter that has not moved for this long is none: it is renewed every millisecond or so."""
MIRROR_J = 1.0
"""Dies of one package whose counters differ by less show one counter twice (codecarbon #1274)."""
DIE = re.compile(r"(package-\d+)-die-\d+$")


@dataclass(frozen=True, slots=True)
class Domain:
    """One counter: a package's (`cpu`) or its memory's (`ram`), and where it wraps [uJ]."""

    name: str
    part: str
    path: Path
    range_uj: int


class Step(NamedTuple):
    """Energy between two readings [J], and whether no wrap can have been missed."""

    energy_j: float
    sure: bool


@dataclass(frozen=True, slots=True)
class Counters:
    """What the powercap tree has: readable domains, and counters that may not be read."""

    domains: tuple[Domain, ...]
    denied: tuple[Path, ...]

    @property
    def usable(self) -> bool:
        """Whether every package can be read: half of the packages would be half of the energy."""
        cpu = any(domain.part == "cpu" for domain in self.domains)
        return cpu and not self.denied

    def of(self, part: str) -> tuple[Domain, ...]:
        """The domains of one part, `cpu` or `ram`."""
        return tuple(domain for domain in self.domains if domain.part == part)


def find_counters(root: Path = POWERCAP) -> Counters:
    """Packages and their memory below `root`, each once; psys, cores and uncore are left out.

    psys holds the packages, cores and uncore are inside them, and intel-rapl-mmio lists the same
    packages as intel-rapl.
    """
    found: dict[str, Domain] = {}
    denied: dict[str, Path] = {}
    # Sorted, "intel-rapl:" comes after "intel-rapl-mmio:"; the MSR interface is to win.
    for zone in sorted(_zones(root), key=lambda path: ("mmio" in path.name, path.name)):
        name = _named(zone)
        if name is None or name in found:
            continue
        energy_uj, range_uj = _figure(zone / "energy_uj"), _figure(zone / "max_energy_range_uj")
        if energy_uj is None or not range_uj:
            denied.setdefault(name, zone / "energy_uj")
            continue
        denied.pop(name, None)
        part = "ram" if name.endswith("/dram") else "cpu"
        found[name] = Domain(name, part, zone / "energy_uj", range_uj)
    packages = {name: path for name, path in denied.items() if not name.endswith("/dram")}
    return Counters(tuple(_without_mirrors(list(found.values()))), tuple(packages.values()))


def readable(root: Path = POWERCAP) -> bool:
    """Whether any counter of this host can be read."""
    return any(_figure(zone / "energy_uj") is not None for zone in _zones(root))


def read_counters(domains: Sequence[Domain]) -> dict[str, int]:
    """Each counter's value [uJ] by domain; one that cannot be read now is left out."""
    values = ((domain.name, _figure(domain.path)) for domain in domains)
    return {name: value for name, value in values if value is not None}


def energy_step(
    domains: Sequence[Domain],
    before: Mapping[str, int],
    after: Mapping[str, int],
    span_s: float,
    power_w: float | None,
) -> Step | None:
    """Energy of all domains together over `span_s` [s]; None when one of them is not known.

    A negative difference is one wrap, and the range is added. If the span allows several wraps, the
    number that fits `power_w` [W] of each domain is used and `sure` is False; without `power_w` the
    result is None. None also for a counter that stood still, as those of virtual machines do, or
    was reset.
    """
    total_j, sure = 0.0, True
    for domain in domains:
        if domain.name not in before or domain.name not in after:
            return None
        step_uj = after[domain.name] - before[domain.name]
        step_j = j_from_uj(step_uj if step_uj >= 0 else step_uj + domain.range_uj)
        range_j = j_from_uj(domain.range_uj)
        if span_s * MOST_W >= range_j:
            if power_w is None:
                return None
            step_j += max(0, round((power_w * span_s - step_j) / range_j)) * range_j
            sure = False
        elif step_j > span_s * MOST_W or (step_j == 0 and span_s > STILL_S):  # set back, or still
            return None
        total_j += step_j
    return Step(total_j, sure) if domains else None


def _zones(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if re.match(r"intel-rapl[\w-]*:", path.name)]
    except OSError:
        return []


def _named(zone: Path) -> str | None:
    """`package-0`, or `package-0/dram` for its memory; None for what is not counted."""
    name = text_of(zone / "name") or ""
    if name.startswith("package"):
        return name
    if name != "dram":
        return None
    package = text_of(zone.with_name(zone.name.rpartition(":")[0]) / "name")
    return f"{package or zone.name}/dram"


def _without_mirrors(domains: list[Domain]) -> list[Domain]:
    kept: list[Domain] = []
    seen: dict[str, list[int]] = {}
    for domain in domains:
        die = DIE.match(domain.name)
        value = _figure(domain.path)
        if die and value:
            others = seen.setdefault(die[1], [])
            if any(abs(j_from_uj(value - other)) < MIRROR_J for other in others):
                continue
            others.append(value)
        kept.append(domain)
    return kept


def _figure(path: Path) -> int | None:
    text = text_of(path) or ""
    return int(text) if text.isdecimal() else None
