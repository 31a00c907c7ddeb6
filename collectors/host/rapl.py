"""RAPL: the processor's own energy counters, read from Linux's powercap tree.

The counters start at once and cost a file read, where codecarbon takes seconds to begin. They wrap
at `max_energy_range_uj`, so they are read at least once a minute. Kernels since 5.10 let only root
read them (CVE-2020-8694), and container engines hide the tree (GHSA-jq35-85cj-fj4p).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from gramwatt.collectors.host.machine import CPU, RAM
from gramwatt.collectors.host.model import WAIT_NS, HostSource, Span
from gramwatt.collectors.settings.clock import NS_PER_S, Timeline, suspended_between
from gramwatt.collectors.settings.files import text_of
from gramwatt.sci.figures.units import j_from_uj

POWERCAP = Path("/sys/class/powercap")
MOST_W = 1_000.0
"""More than any package draws: over twice the highest rating in the catalog of CPUs (385 W)."""
POLL_S = 30.0
"""Half of the minute in which the smallest counters (65 kJ, AMD's 15.3 uJ in 32 bits) may wrap at
that power."""
STILL_S = 1.0
"""A counter that has not moved for this long is none: it is renewed every millisecond or so."""
DOUBT = 2.0
"""A reading that says more than so many times the power before, and the first one, is believed once
the next one has not come back: some processors showed one that was 700 J too high (powerstat #16).
"""
MIRROR_J = 1.0
"""Dies of one package whose counters differ by less show one counter twice (codecarbon #1274)."""
DIE = re.compile(r"(package-\d+)-die-\d+$")
MEMORY = "/dram"
"""Ends the name of a package's memory."""


class Domain(Struct, frozen=True):
    """One counter: a package's (`cpu`) or its memory's (`ram`), and where it wraps [uJ]."""

    name: str
    component: str
    path: Path
    range_uj: int


class Step(NamedTuple):
    """Energy between two readings [J], and whether no wrap can have been missed."""

    energy_j: float
    sure: bool


class Counters(Struct, frozen=True):
    """What the powercap tree has: readable domains, and files of others by the domain's name."""

    domains: tuple[Domain, ...]
    denied: Mapping[str, Sequence[Path]]

    def denied_of(self, component: str) -> list[Path]:
        """Return the files of `cpu` or `ram` that cannot be read."""
        named = self.denied.items()
        return [path for name, paths in named if _component(name) == component for path in paths]

    def denied_text(self, component: str) -> str:
        """Return which files of `cpu` or `ram` cannot be read, as the begin of a sentence."""
        paths = self.denied_of(component)
        names = " and ".join(sorted({path.name for path in paths}))
        count = len({path.parent for path in paths})
        what = f"{count} processor package{'s' if count > 1 else ''}"
        memory = "the memory of " if component == RAM else ""
        return f"{names} of {memory}{what} cannot be read"

    @property
    def usable(self) -> bool:
        """Return whether every package can be read: half of them would be half of the energy."""
        return bool(self.of(CPU))

    def of(self, component: str) -> tuple[Domain, ...]:
        """Return the domains of `cpu` or `ram`; none where a package's own cannot be read."""
        packages = [domain for domain in self.domains if domain.component == CPU]
        names = {package.name + MEMORY * (component == RAM) for package in packages}
        domains = tuple(domain for domain in self.domains if domain.name in names)
        missing = len(domains) < len(names) or self.denied_of(CPU) or self.denied_of(component)
        return () if missing else domains


NO_COUNTERS = Counters((), {})


def find_counters(root: Path = POWERCAP) -> Counters:
    """Return packages and their memory below `root`, each once, without psys, cores and uncore.

    psys holds the packages, cores and uncore are inside them, and intel-rapl-mmio lists the same
    packages as intel-rapl.
    """
    domains: dict[str, Domain] = {}
    denied: dict[str, list[Path]] = {}
    # Sorted, "intel-rapl:" comes after "intel-rapl-mmio:"; the MSR interface is to win.
    for zone in sorted(_zones(root), key=lambda path: ("mmio" in path.name, path.name)):
        name = _named(zone)
        if name is None or name in domains:
            continue
        energy, range_ = zone / "energy_uj", zone / "max_energy_range_uj"
        unreadable = [path for path in (energy, range_) if _figure(path) is None]
        range_uj = _figure(range_)
        if unreadable or not range_uj:
            denied.setdefault(name, unreadable or [range_])
            continue
        denied.pop(name, None)
        domains[name] = Domain(name, _component(name), energy, range_uj)
    return Counters(tuple(_without_mirrors(list(domains.values()))), denied)


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
    """Values of a component's counters [uJ] by domain at one moment of the timeline [ns].

    `slept_ns` is for how long the machine had been suspended until then.
    """

    time_ns: int
    slept_ns: int
    values_uj: dict[str, int]


class RaplSource(HostSource):
    """One component by its RAPL counters."""

    meter, kind = "rapl", "measured"

    def __init__(
        self, domains: Sequence[Domain], timeline: Timeline, notify: Callable[[str, str], None]
    ) -> None:
        """Take the first reading; spans not known leave a notice."""
        self._domains, self._timeline, self._notify = domains, timeline, notify
        self._last = self._reading(timeline.now_ns())
        self._doubtful: Reading | None = None
        """A reading after the last one that the next one is to confirm."""
        self._power_w: float | None = None
        self._tried_ns = self._last.time_ns

    def due_ns(self) -> int:
        """Return when the counters must be read again, so that no wrap is missed [ns]."""
        return self._tried_ns + int(POLL_S * NS_PER_S)

    def read(self, since_ns: int, now_ns: int, until_ns: int, *, last: bool) -> list[Span]:
        """Return the span since the last reading, and before the first the same power, estimated.

        Counters that cannot be read now continue to count, so that their next value spans this
        one; they tell nothing only after a minute. A reading in doubt waits for the next one.
        """
        before, self._tried_ns = self._last, now_ns
        if min(now_ns, until_ns) <= before.time_ns:
            return []
        now, doubtful = self._reading(now_ns), self._doubtful
        if len(now.values_uj) < len(self._domains) and now_ns - before.time_ns < WAIT_NS:
            return []
        step = self._step(before, now)
        if doubtful is None:
            if not last and self._is_odd(step, before, now):
                self._doubtful = now
                return []
            return self._spans(since_ns, now, step)
        self._doubtful = None
        first, second = self._step(before, doubtful), self._step(doubtful, now)
        if step and step.sure and (first is None or second is None):
            text = "RAPL showed a value that its next one disproved; it is left out."
            self._notify("meter-counter-reset", text)
            return self._spans(since_ns, now, step)
        spans = self._spans(since_ns, doubtful, first)
        return [*spans, *self._spans(doubtful.time_ns, now, second)]

    def _reading(self, now_ns: int) -> Reading:
        return Reading(now_ns, self._timeline.suspended_ns(), read_counters(self._domains))

    def _step(self, before: Reading, after: Reading) -> Step | None:
        """Return the energy between two readings; a suspended machine draws none.

        None for a counter that is lower after a suspend: it was set back, which is not a wrap.
        """
        values_uj = before.values_uj
        lower = any(uj < values_uj.get(name, 0) for name, uj in after.values_uj.items())
        if lower and suspended_between(before.slept_ns, after.slept_ns):
            return None
        each_w = self._power_w / len(self._domains) if self._power_w else None
        span_s = _awake_s(before, after)
        return energy_step(self._domains, before.values_uj, after.values_uj, span_s, each_w)

    def _is_odd(self, step: Step | None, before: Reading, after: Reading) -> bool:
        """Tell whether the power since the last reading is one to doubt, by what it was before."""
        if len(after.values_uj) < len(self._domains):
            return False
        most_j = DOUBT * (self._power_w or 0.0) * _awake_s(before, after)
        return step is None or step.energy_j > most_j

    def _spans(self, since_ns: int, now: Reading, step: Step | None) -> list[Span]:
        before, self._last = self._last, now
        if now.time_ns <= before.time_ns:
            return []
        awake_s = _awake_s(before, now)
        awake = awake_s * NS_PER_S / (now.time_ns - before.time_ns)
        if step is None:
            component = self._domains[0].component
            self._notify("meter-gap", f"RAPL gave no {component} energy for a while.")
            return [Span(since_ns, now.time_ns, None, "estimated", awake)]
        power_w, kind = step.energy_j / awake_s, "estimated"
        if step.sure:
            self._power_w, kind = power_w, self.kind
        return [
            Span(since_ns, before.time_ns, power_w, "estimated"),
            Span(before.time_ns, now.time_ns, power_w, kind, awake),
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
            self._power_w = state["power_w"]
            self._last = Reading(state["time_ns"], state["slept_ns"], dict(state["values_uj"]))
            self._tried_ns = self._last.time_ns


def _awake_s(before: Reading, after: Reading) -> float:
    """Return how long the machine ran between two readings [s]."""
    asleep_ns = suspended_between(before.slept_ns, after.slept_ns)
    return max(1, after.time_ns - before.time_ns - asleep_ns) / NS_PER_S


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
    return f"{package or zone.name}{MEMORY}"


def _component(name: str) -> str:
    return RAM if name.endswith(MEMORY) else CPU


def _without_mirrors(domains: list[Domain]) -> list[Domain]:
    distinct: list[Domain] = []
    seen: dict[str, list[int]] = {}
    for domain in domains:
        die = DIE.match(domain.name)
        value = _figure(domain.path)
        if die and value:
            others = seen.setdefault(die[1], [])
            if any(abs(j_from_uj(value - other)) < MIRROR_J for other in others):
                continue
            others.append(value)
        distinct.append(domain)
    return distinct


def _figure(path: Path) -> int | None:
    text = text_of(path) or ""
    return int(text) if text.isdecimal() else None
