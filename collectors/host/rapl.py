"""RAPL: the processor's own energy counters, read from Linux's powercap tree.

The counters start at once and cost a file read, where codecarbon takes seconds to begin. They wrap
at `max_energy_range_uj`, so they are read at least once a minute. Kernels since 5.10 let only root
read them (CVE-2020-8694), and container engines hide the tree (GHSA-jq35-85cj-fj4p).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.host.source import CPU, RAM, WAIT_NS, Span
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
    component: str
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
        """Return whether every package can be read: half of them would be half of the energy."""
        return any(domain.component == CPU for domain in self.domains) and not self.denied

    def of(self, component: str) -> tuple[Domain, ...]:
        """Return the domains of `cpu` or `ram`; none where not every package can be read."""
        domains = self.domains if self.usable else ()
        return tuple(domain for domain in domains if domain.component == component)


NO_COUNTERS = Counters((), ())


def find_counters(root: Path = POWERCAP) -> Counters:
    """Return packages and their memory below `root`, each once, without psys, cores and uncore.

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
        component = RAM if name.endswith("/dram") else CPU
        found[name] = Domain(name, component, zone / "energy_uj", range_uj)
    packages = {name: path for name, path in denied.items() if not name.endswith("/dram")}
    return Counters(tuple(_without_mirrors(list(found.values()))), tuple(packages.values()))


def read_counters(domains: Sequence[Domain]) -> dict[str, int]:
    """Return each counter's value [uJ] by domain, without those that cannot be read now."""
    values = ((domain.name, _figure(domain.path)) for domain in domains)
    return {name: value for name, value in values if value is not None}


def energy_step(
    domains: Sequence[Domain],
    before: Mapping[str, int],
    after: Mapping[str, int],
    span_s: float,
    power_w: float | None,
) -> Step | None:
    """Return the energy of all domains over `span_s` [s]; None when one of them is not known.

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


class Reading(NamedTuple):
    """Values of a component's counters [uJ] by domain at one moment of the timeline [ns]."""

    time_ns: int
    values_uj: dict[str, int]


class RaplSource:
    """One component by its RAPL counters."""

    meter, kind = "rapl", "measured"

    def __init__(
        self, domains: Sequence[Domain], now_ns: int, notify: Callable[[str, str], None]
    ) -> None:
        """Take the first reading, at `now_ns` [ns]; spans not known leave a notice."""
        self._domains, self._notify = domains, notify
        self._last = Reading(now_ns, read_counters(domains))
        self._power_w: float | None = None
        self._tried_ns = now_ns

    def due_ns(self) -> int:
        """Return when the counters must be read again, so that no wrap is missed [ns]."""
        return self._tried_ns + int(POLL_S * NS_PER_S)

    def read(self, since_ns: int, now_ns: int, until_ns: int) -> list[Span]:
        """Return the span since the last reading, and before the first the same power, estimated.

        Counters that cannot be read now continue to count, so that their next value spans this
        one; they tell nothing only after a minute.
        """
        last, self._tried_ns = self._last, now_ns
        if min(now_ns, until_ns) <= last.time_ns:
            return []
        now = Reading(now_ns, read_counters(self._domains))
        if len(now.values_uj) < len(self._domains) and now_ns - last.time_ns < WAIT_NS:
            return []
        self._last, span_s = now, (now_ns - last.time_ns) / NS_PER_S
        each_w = self._power_w / len(self._domains) if self._power_w else None
        step = energy_step(self._domains, last.values_uj, now.values_uj, span_s, each_w)
        if step is None:
            component = self._domains[0].component
            self._notify("meter-gap", f"RAPL gave no {component} energy for a while.")
            return [Span(since_ns, now_ns, None, "estimated")]
        power_w, kind = step.energy_j / span_s, "estimated"
        if step.sure:
            self._power_w, kind = power_w, self.kind
        return [
            Span(since_ns, last.time_ns, power_w, "estimated"),
            Span(last.time_ns, now_ns, power_w, kind),
        ]

    def cut_ns(self, mark_ns: int, now_ns: int) -> int | None:
        """Return now [ns]; None for a boundary before the last reading, as of a short window."""
        return now_ns if mark_ns > self._last.time_ns else None

    def state(self) -> dict[str, Any]:
        """Return the last reading, JSON-ready."""
        return {**self._last._asdict(), "power_w": self._power_w}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from another meter's last reading, if it had one: the counters span the gap."""
        if "values_uj" in state:
            self._last = Reading(int(state["time_ns"]), dict(state["values_uj"]))
            self._power_w, self._tried_ns = state["power_w"], self._last.time_ns


def _zones(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if re.match(r"intel-rapl[\w-]*:", path.name)]
    except OSError:
        return []


def _named(zone: Path) -> str | None:
    """Return `package-0`, or `package-0/dram` for its memory; None for what is not counted."""
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
