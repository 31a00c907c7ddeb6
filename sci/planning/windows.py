"""The best hours of a forecast: one window, or separate slots for a job that may be interrupted.

Time is in hours from the first known one; intensity is constant within a step. Emissions are in
proportion to power, so a job's power profile is given relative to its mean.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
from msgspec import Struct

from gramwatt.sci.planning.hours import Floats

EQUAL = 1.02
"""Windows whose emissions are within 2 % of the best are as good: forecasts err by more."""
TOLERANCE_H = 1e-9
DOES_NOT_FIT = "the job does not fit between earliest and deadline"
Slots = list[tuple[float, float]]
"""Start and end [h] of each, in order of time."""


class Grid(Struct, frozen=True):
    """Intensity [gCO2e/kWh] of steps with the edges `edges` [h], one more than there are steps."""

    edges: Floats
    values: Floats

    def integral(self, times: Floats) -> Floats:
        """Return intensity integrated from the first edge to each time [gCO2e/kWh x h]."""
        sums = np.concatenate([[0.0], np.cumsum(self.values * np.diff(self.edges))])
        integral: Floats = np.interp(times, self.edges, sums)
        return integral

    def with_values(self, values: Floats) -> Grid:
        """Return the same steps with other intensities."""
        return Grid(self.edges, values)

    def at(self, times: Floats) -> Floats:
        """Return intensity at each time [gCO2e/kWh]."""
        step = np.searchsorted(self.edges, times, side="right") - 1
        values: Floats = self.values[np.clip(step, 0, len(self.values) - 1)]
        return values


class Profile(Struct, frozen=True):
    """A job's power over its length: steps of `edges` [h] from 0, relative to the mean power."""

    edges: Floats
    power: Floats

    @property
    def hours(self) -> float:
        """Return the job's length [h]."""
        return float(self.edges[-1])


class Overhead(Struct, frozen=True):
    """What waiting and interruptions cost.

    `idle` is the power while the job waits, relative to its mean power; `restart_h` the energy of a
    start after an interruption, in hours of work.
    """

    idle: float = 0.0
    restart_h: float = 0.0


NONE = Overhead()


def means(grid: Grid, profile: Profile, starts: Floats) -> Floats:
    """Return mean intensity by energy [gCO2e/kWh] of the job at each start [h]."""
    sums = np.zeros(len(starts))
    for left, right, power in zip(
        profile.edges[:-1], profile.edges[1:], profile.power, strict=True
    ):
        sums += power * (grid.integral(starts + right) - grid.integral(starts + left))
    mean: Floats = sums / profile.hours
    return mean


def cost(
    grid: Grid, profile: Profile, slots: Slots, earliest: float, overhead: Overhead = NONE
) -> float:
    """Return emissions of the job in these slots, per hour of it at its mean power [gCO2e/kWh].

    Those of waiting since `earliest` and of restarts are included.
    """
    ends = np.array(slots)
    spent = grid.integral(ends[:, 1]) - grid.integral(ends[:, 0])
    if len(slots) == 1:
        work = float(means(grid, profile, ends[:, 0])[0]) * profile.hours
    else:
        work = float(spent.sum())
    bounds = grid.integral(np.array([earliest, ends[-1, 1]]))
    waiting = float(bounds[1] - bounds[0] - spent.sum())
    restarts = float(grid.at(ends[1:, 0]).sum())
    return (work + overhead.idle * waiting + overhead.restart_h * restarts) / profile.hours


def best_window(
    grid: Grid,
    profile: Profile,
    earliest: float,
    deadline: float,
    *,
    idle: float = 0.0,
    seed: str | None = None,
) -> float:
    """Return the start [h] of the best window; with a seed, of one that is about as good.

    `idle` is the power while the job waits, relative to its mean power.

    Emissions are linear between starts at which an edge of the job meets one of the grid, so the
    best is among those. Raises ValueError when the job does not fit.
    """
    latest = deadline - profile.hours
    if latest < earliest - TOLERANCE_H:
        raise ValueError(DOES_NOT_FIT)
    edges = (
        np.concatenate([[0.0], profile.edges[-1:]]) if len(profile.power) == 1 else profile.edges
    )
    candidates = np.concatenate([[earliest, latest], *(grid.edges - edge for edge in edges)])
    starts = _distinct(candidates[(candidates >= earliest) & (candidates <= max(latest, earliest))])
    waited = grid.integral(starts) - grid.integral(np.array([earliest]))
    costs = means(grid, profile, starts) + idle * waited / profile.hours
    # The first of equals: rounding is no reason to wait.
    least = EQUAL if seed else 1 + TOLERANCE_H
    equal = np.flatnonzero(costs <= least * costs.min())
    if seed is None:
        return float(starts[equal[0]])
    return float(starts[equal[crc32(seed.encode()) % len(equal)]])


def _distinct(values: Floats) -> Floats:
    """Return the values in order, each once; np.unique would load numpy.ma for it."""
    return np.array(sorted(set(values.tolist())))


def best_slots(
    grid: Grid, hours: float, earliest: float, deadline: float, overhead: Overhead = NONE
) -> Slots:
    """Return slots [h] of least emissions that add up to the job's length, in order of time.

    Without overhead these are the cheapest steps; with it, dynamic programming over steps, work
    done, and whether the job runs. Raises ValueError when the job does not fit.
    """
    if deadline - earliest < hours - TOLERANCE_H:
        raise ValueError(DOES_NOT_FIT)
    if overhead == NONE:
        edges = _distinct(np.clip([*grid.edges, earliest, deadline], earliest, deadline))
        values = np.diff(grid.integral(edges)) / np.diff(edges)
        taken = _cheapest(values, np.diff(edges), hours)
    else:
        # The work in whole steps, so that every step is used wholly or not at all.
        step = hours / np.ceil(hours / np.diff(grid.edges).min() - TOLERANCE_H)
        count = int((deadline - earliest) / step + TOLERANCE_H)
        edges = earliest + step * np.arange(count + 1)
        values = np.diff(grid.integral(edges)) / step
        taken = step * _dynamic(values, round(hours / step), overhead, step)
    slots: Slots = []
    for start, used in zip(edges[:-1], taken, strict=True):
        if used <= 0:
            continue
        joined = slots and abs(slots[-1][1] - start) < TOLERANCE_H
        slots.append((slots.pop()[0] if joined else float(start), float(start + used)))
    return slots


def _cheapest(values: Floats, widths: Floats, hours: float) -> Floats:
    """Return how much of each step [h] is used when the cheapest are."""
    order = np.argsort(values, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(widths[order])[:-1]])
    taken = np.zeros(len(widths))
    taken[order] = np.clip(hours - before, 0.0, widths[order])
    return taken


def _dynamic(values: Floats, need: int, overhead: Overhead, step: float) -> Floats:
    """Return which steps are used, as 1 or 0, when waiting and each start after the first cost."""
    work = np.arange(need + 1)
    restart = np.where(work == 0, 0.0, overhead.restart_h / step)
    idle = np.where(work < need, overhead.idle, 0.0)
    waiting, running = np.where(work == 0, 0.0, np.inf), np.full(need + 1, np.inf)
    came: list[tuple[np.ndarray, np.ndarray]] = []
    for value in values:
        started = waiting + restart * value
        came.append((started < running, running < waiting))
        after = np.minimum(started, running) + value
        waiting = np.minimum(waiting, running) + idle * value
        running = np.concatenate([[np.inf], after[:-1]])
    taken = np.zeros(len(values))
    done, runs = need, bool(running[need] < waiting[need])
    for index in range(len(values) - 1, -1, -1):
        starts, stops = came[index]
        if runs:
            taken[index] = 1.0
            done -= 1
            runs = not bool(starts[done])
        else:
            runs = bool(stops[done])
    return taken
