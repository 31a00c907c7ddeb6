"""The loads and sensors that every tool is held against.

Every load is straight pieces of power, repeating, so that the virtual NVML, the C stand-in and the
truth are one list of numbers with an exact integral.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any, NamedTuple

Piece = tuple[float, float, float]
"""Duration [s], power at its start [W], power at its end [W]."""

RANDOM_WAVES = 24
SEED = 20260501


class Wave(NamedTuple):
    """A load: its name and one period of it."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def spec(self) -> dict[str, Any]:
        """As the synthetic NVML takes it."""
        return {"type": "pieces", "pieces": [list(piece) for piece in self.pieces]}


class Sensor(NamedTuple):
    """A board's sensors: the counter's update period [s] and what its power reading is."""

    name: str
    update_period_s: float
    power: str


HOPPER = Sensor("Hopper-like", 0.1, "mean")
A100 = Sensor("A100-like", 0.1, "part")
SENSORS = (
    HOPPER,
    A100,
    Sensor("instant power", 0.1, "instant"),
    Sensor("counter every 20 ms", 0.02, "mean"),
    Sensor("counter every 50 ms", 0.05, "mean"),
    Sensor("counter every 200 ms", 0.2, "mean"),
)


def square(low_w: float, high_w: float, period_s: float, duty: float = 0.5) -> tuple[Piece, ...]:
    """`high_w` for the first `duty` of the period, then `low_w`."""
    high_s = duty * period_s
    return ((high_s, high_w, high_w), (period_s - high_s, low_w, low_w))


PUBLISHED: tuple[tuple[Wave, Sensor], ...] = (
    (Wave("square 100/700 W, 2 s", square(100, 700, 2.0)), HOPPER),
    (Wave("square 100/700 W, 20 s", square(100, 700, 20.0)), HOPPER),
    (Wave("square 100/400 W, 1.00 s, 70 %", square(100, 400, 1.0, 0.7)), A100),
    (Wave("square 100/400 W, 0.97 s, 70 %", square(100, 400, 0.97, 0.7)), A100),
    (Wave("square 100/700 W, 0.137 s", square(100, 700, 0.137)), HOPPER),
)
"""The five stress cases, each with the sensor it was chosen for: 1.00 s is in
step with a tool that reads once a second, 0.97 s is not, 0.137 s is hardest on a 100 ms counter."""


def random_waves() -> list[Wave]:
    """Loads drawn at random, the same ones each time."""
    draw = Random(SEED)
    kinds = (_random_square, _random_ramp, _random_steps, _random_sine)
    return [kinds[number % len(kinds)](draw, number) for number in range(RANDOM_WAVES)]


def _levels(draw: Random) -> tuple[float, float, float]:
    """Idle power [W], busy power [W] and a period [s]; each decade of periods as likely."""
    period_s = 10 ** draw.uniform(math.log10(0.05), math.log10(20.0))
    return round(draw.uniform(60, 200)), round(draw.uniform(300, 700)), round(period_s, 4)


def _random_square(draw: Random, number: int) -> Wave:
    low_w, high_w, period_s = _levels(draw)
    duty = round(draw.uniform(0.2, 0.9), 2)
    name = f"random {number}: square {low_w}/{high_w} W, {period_s} s, {duty:.0%}"
    return Wave(name, square(low_w, high_w, period_s, duty))


def _random_ramp(draw: Random, number: int) -> Wave:
    low_w, high_w, period_s = _levels(draw)
    name = f"random {number}: ramp {low_w}-{high_w} W, {period_s} s"
    return Wave(name, ((period_s, low_w, high_w),))


def _random_steps(draw: Random, number: int) -> Wave:
    low_w, high_w, _ = _levels(draw)
    levels = [round(draw.uniform(low_w, high_w)) for _ in range(200)]
    spans_s = [round(10 ** draw.uniform(-2, 0.5), 4) for _ in levels]
    pieces = tuple((span, level, level) for span, level in zip(spans_s, levels, strict=True))
    return Wave(f"random {number}: 200 steps {low_w}-{high_w} W, 0.01-3 s each", pieces)


def _random_sine(draw: Random, number: int, parts: int = 48) -> Wave:
    low_w, high_w, period_s = _levels(draw)
    middle_w, swing_w = (low_w + high_w) / 2, (high_w - low_w) / 2
    points = [middle_w + swing_w * math.sin(2 * math.pi * i / parts) for i in range(parts + 1)]
    pieces = tuple((period_s / parts, points[i], points[i + 1]) for i in range(parts))
    return Wave(f"random {number}: sine {low_w}-{high_w} W, {period_s} s", pieces)
