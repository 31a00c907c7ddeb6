"""What servers have counted during a job: totals that grow (docs/journal.md, "Servers").

A counter that goes back was begun anew by a server that was restarted: what it has counted since
then counts. One that goes back and forth is of several processes which answer in turn: the one that
has counted most counts. The last values stand in the meter's state beside the totals made of them,
so that the next meter goes on from there: a killed meter loses and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from gramwatt.collectors.serving.poll import START_TIME, Poller, Reading
from gramwatt.collectors.serving.presets import Key, Preset, Series, Server, Term, Way
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.figures.structs import convert
from gramwatt.sci.records.records import SERVICE_BUSY_S, SERVICE_KNOWN_S

SERVICE = "service."
"""What begins the units that divide the energy, and are not R."""
LONGEST_UNREAD_NS = 12 * NS_PER_S
"""At the end two missed readings are not reported: what a server counts just before its death is
lost anyway (docs/serving.md)."""
HELD_NS = 60 * NS_PER_S
"""How long a counter that went back between two readings has to come back: then it is another's."""
LOADING_NS = 600 * NS_PER_S
"""How long a server may load its model before it is reported that nothing of it is read [ns]."""
LEAST_STEP = 1e-9
"""Relative: a sum that is printed with fewer digits than it has may seem to go back."""
RANKS = {"tp_rank", "pp_rank", "moe_ep_rank"}
"""Labels of SGLang's ranks, each of which counts the tokens that all of them work on."""
IN_TURN = (
    "answers for several processes in turn, and what only the lower counters have is not counted; "
    "give each an address of its own, or all one set of counters (PROMETHEUS_MULTIPROC_DIR)"
)


class _Watched(Struct):
    """What is known of one server: the values read last, and by which counters amounts are made."""

    values: dict[Series, float] = field(default_factory=dict)
    at_ns: int = 0
    """When they were read [ns]; 0 before the first reading."""
    was_down: bool = False
    preset: str | None = None
    ways: dict[Key, int] = field(default_factory=dict)
    """The way that has counted an amount, by its number in the preset."""
    owed: dict[Key, float] = field(default_factory=dict)
    """Amounts below zero, as of cached tokens that are counted before their prompt is."""
    high_ns: int = 0
    """The last reading before counters went back, where it is not known yet why; else 0."""
    in_turn: bool = False
    problem: str = ""
    """Why the last reading gave nothing, and for how long none has; empty after one that did."""
    unread_ns: int = 0


_PAIRS: dict[str, Any] = {
    "values": list[tuple[Series, float]],
    "ways": list[tuple[Key, int]],
    "owed": list[tuple[Key, float]],
}
"""What the state has as pairs, since the keys are no texts."""


class ServerCounts:
    """The totals of the servers of one job; it began at `start_ns` [ns]."""

    def __init__(
        self, servers: Sequence[Server], notify: Callable[[str, str], None], start_ns: int
    ) -> None:
        self.totals: dict[Key, float] = {}
        """What they have counted by unit and phase."""
        self._servers = servers
        self._notify = notify
        self._start_ns = start_ns
        self._watched = [_Watched() for _ in servers]  # addresses may differ in a secret only
        self._busy_until_ns = 0
        self._polls: Poller | None = None

    @property
    def reads(self) -> bool:
        """Return whether there are servers to read."""
        return bool(self._servers)

    def begin(self, polls: Callable[[Sequence[Server]], Poller]) -> None:
        """Have the servers read from now on; nothing begins where there are none."""
        if self._servers:
            self._polls = polls(self._servers)

    def resume(self, state: Mapping[str, Any] | None, now_ns: int) -> None:
        """Go on from the state of the meter before.

        Without one, as where its journal was delivered meanwhile, what servers have done until
        `now_ns` [ns] may be counted already.
        """
        if state is None:
            self._start_ns = now_ns
            return
        self.totals = dict(convert(state["totals"], _PAIRS["owed"]))
        for number, row in enumerate(state["servers"]):
            dicts = {name: dict(convert(row[name], kind)) for name, kind in _PAIRS.items()}
            self._watched[number] = _Watched(**row | dicts)

    def state(self) -> dict[str, Any]:
        """Return the totals and the last values of each server, for JSON."""
        servers = [
            {
                name: list(value.items()) if isinstance(value, dict) else value
                for name, value in asdict(watched).items()
            }
            for watched in self._watched
        ]
        return {"totals": list(self.totals.items()), "servers": servers}

    def read(self, at_mono: Callable[[int], int], last: bool = False) -> Iterator[int]:
        """Take what the polls have read, and yield the moment of each reading that counts [ns].

        `at_mono` gives a reading's time on the job's timeline [ns].
        """
        if self._polls is None:
            return
        for reading in self._polls.last() if last else self._polls.take():
            at_ns = at_mono(reading.mono_ns)
            self.take(reading, at_ns)
            if self._watched[reading.server].at_ns == at_ns:
                yield at_ns
        for server, watched in zip(self._servers, self._watched, strict=True):
            if last:
                self._report_uncounted(server, watched)

    def take(self, reading: Reading, at_ns: int) -> None:
        """Count what is new in a reading at `at_ns` [ns]."""
        server = self._servers[reading.server]
        watched = self._watched[reading.server]
        if reading.samples is None:
            watched.was_down |= reading.down
            if not (reading.down and watched.problem):  # the end of a server is no explanation
                watched.problem = reading.problem
            watched.unread_ns = at_ns - watched.at_ns
            if watched.at_ns == 0 and at_ns - self._start_ns > LOADING_NS:
                self._report(server, f"could not be read yet: {reading.problem}")
            elif reading.down:  # one that has ended counts nothing more
                watched.unread_ns = 0
            return
        if at_ns <= watched.at_ns:
            return
        preset = self._preset(server, watched, reading.samples, at_ns)
        if not preset:  # what it shows later has begun at zero
            watched.at_ns, watched.problem = at_ns, ""
            return
        samples = dict(reading.samples)
        restarted = self._restarted(server, watched, samples, at_ns)
        watched.problem = ""
        if restarted:
            watched.ways.clear()
            watched.owed.clear()
            self._report(server, "restarted its counters; what it did in the 5 s before is lost")
        goes_on = watched.at_ns and not restarted
        amounts = dict(_amounts(preset, watched, samples))
        replaced = restarted and not watched.values and Series(START_TIME) in samples
        if (watched.at_ns and not replaced) or self._began_within(watched, samples):
            for (unit, phase), amount in amounts.items():
                self._add((unit, phase), amount)
        else:
            self._report(server, "was running before: what it did until then is not counted")
        if goes_on:
            span_s = (at_ns - watched.at_ns) / NS_PER_S
            self._add((SERVICE_KNOWN_S, None), span_s / len(self._servers))
            if amounts:  # time in which several servers worked is busy once
                busy_ns = at_ns - max(watched.at_ns, self._busy_until_ns)
                self._add((SERVICE_BUSY_S, None), max(0, busy_ns) / NS_PER_S)
                self._busy_until_ns = max(at_ns, self._busy_until_ns)
        watched.values |= samples
        watched.at_ns = at_ns

    def _restarted(
        self, server: Server, watched: _Watched, samples: dict[Series, float], at_ns: int
    ) -> bool:
        """Remove the counters that have begun anew from the values before; return whether any has.

        A counter that goes back begins anew alone, as where one of several models is loaded again.
        All counters begin anew where the server says that its process began later. If the server
        answered each time, another process may have answered now: then the lower counters are
        removed from `samples`.
        """
        before, began, adjacent = watched.values, Series(START_TIME), not watched.problem
        later_s = samples.get(began, 0.0) - before[began] if began in before else 0.0
        if later_s > 1.0 or (later_s < -1.0 and not adjacent):
            before.clear()
            watched.high_ns, watched.in_turn = 0, False
            return True
        if later_s < -1.0:
            samples.clear()
        lower = [
            series
            for series, value in before.items()
            if samples.get(series, value) < value * (1 - LEAST_STEP)
        ]
        if later_s < -1.0 or (watched.high_ns and not lower):
            watched.in_turn = True
            self._report(server, IN_TURN)
        if not lower:
            watched.high_ns = 0
            return False
        watched.high_ns = watched.high_ns or watched.at_ns
        held = adjacent and (watched.in_turn or at_ns - watched.high_ns < HELD_NS)
        for series in lower:
            del (samples if held else before)[series]
        if not held:
            watched.high_ns, watched.in_turn = 0, False
        return not held

    def _preset(
        self, server: Server, watched: _Watched, samples: Mapping[Series, float], at_ns: int
    ) -> Preset | None:
        """Return what this server counts by which counters; None while it has none of them."""
        if watched.preset is None:
            candidates = server.candidates().items()
            watched.preset = next(
                (name for name, preset in candidates if _has_any(preset, samples)), None
            )
        counted = server.counted(watched.preset)
        if _has_any(counted, samples):
            return counted
        if at_ns - self._start_ns > LOADING_NS:
            self._report_no_counter(server)
        return None

    def _began_within(self, watched: _Watched, samples: Mapping[Series, float]) -> bool:
        """Return whether a process that is read for the first time began within the job."""
        began_s = samples.get(Series(START_TIME))
        if began_s is not None:
            return began_s * NS_PER_S >= self._start_ns - NS_PER_S
        return watched.was_down

    def _report_uncounted(self, server: Server, watched: _Watched) -> None:
        """Report at the end what of a server is not counted, and why."""
        if watched.at_ns == 0:
            why = watched.problem or "it does not answer"
            self._report(server, f"could not be read, so nothing of it is counted: {why}")
        elif watched.problem and watched.unread_ns > LONGEST_UNREAD_NS:
            unread_s = watched.unread_ns / NS_PER_S
            why = f"could not be read in the last {unread_s:.0f} s ({watched.problem})"
            self._report(server, f"{why}; what it did since is not counted")
        elif watched.high_ns and not watched.in_turn:
            self._report(server, "counted less in its last minute than before, which is left out")
        if not watched.values:
            if watched.at_ns:
                self._report_no_counter(server)
            return
        for (unit, phase), ways in server.counted(watched.preset).items():
            elsewhere = (unit, phase) in server.metrics and (unit, phase) in self.totals
            lacking = [_lacking(way, watched.values) for way in ways]
            if not all(lacking) or elsewhere or unit.startswith(SERVICE):
                continue
            names = " or ".join(map(" and ".join, lacking))
            what = f"{unit} ({phase})" if phase else unit
            other = f"`--count-metric NAME={unit}` takes another counter"
            self._report(server, f"shows no {names}, so R lacks its {what}; {other}")

    def _report_no_counter(self, server: Server) -> None:
        lacking = [name for ways in server.metrics.values() for name in _lacking(ways[0], ())]
        preset = f"the preset {server.preset}" if server.preset else "any preset"
        which = " and ".join(lacking) if lacking and not server.preset else f"counter of {preset}"
        self._report(server, f"answers, but has no {which}; `--count-metric NAME=UNIT` names one")

    def _report(self, server: Server, text: str) -> None:
        self._notify("server-counts", f"{server.shown} {text}.")

    def _add(self, key: Key, amount: float) -> None:
        self.totals[key] = self.totals.get(key, 0.0) + amount


def _has_any(preset: Preset, samples: Iterable[Series]) -> bool:
    return any(_shown(term, samples) for ways in preset.values() for way in ways for term in way)


def _amounts(
    preset: Preset, watched: _Watched, samples: Mapping[Series, float]
) -> Iterable[tuple[Key, float]]:
    """Yield what was counted since the values before, by unit and phase.

    Where an amount can be had in several ways, the one that has counted first is kept: another that
    a server shows later would count the same again.
    """
    for key, ways in preset.items():
        for number, way in enumerate(ways):
            if watched.ways.get(key, number) != number or not _shown(way[0], samples):
                continue
            amount = watched.owed.pop(key, 0.0)
            amount += sum(term.sign * _growth(term, watched, samples) for term in way)
            if amount > 0:
                watched.ways[key] = number
                yield key, amount
            elif amount < 0:
                watched.owed[key] = amount
            break


def _growth(term: Term, watched: _Watched, samples: Mapping[Series, float]) -> float:
    """Return by how much a counter has grown; where several ranks count the same, that of one."""
    grown: dict[tuple[tuple[str, str], ...], float] = {}
    for series in sorted(filter(term.takes, samples)):
        replica = tuple(label for label in series.labels if label[0] not in RANKS)
        grown.setdefault(replica, samples[series] - watched.values.get(series, 0.0))
    return sum(grown.values())


def _lacking(way: Way, samples: Iterable[Series]) -> list[str]:
    """Return which counters of a way are not there, apart from those that are taken off."""
    return [term.name for term in way if term.sign > 0 and not _shown(term, samples)]


def _shown(term: Term, samples: Iterable[Series]) -> bool:
    return any(map(term.takes, samples))
