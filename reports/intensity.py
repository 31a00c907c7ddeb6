"""A zone's intensity over time: what came, what is expected, and the window of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from gramwatt.reports.charts import bands
from gramwatt.reports.model import Block, Chart, Document, Facts, NoticeBlock, Text
from gramwatt.reports.sections import data_table
from gramwatt.sci.figures.document import IntensityDoc, IntensityPointDoc
from gramwatt.sci.figures.formatting import number
from gramwatt.sci.figures.notices import Notice

if TYPE_CHECKING:  # plans load numpy
    from gramwatt.sci.planning.plan import PlanDoc, SlotDoc

MOST = 200
"""Steps that are shown; finer ones are joined to means."""
_STEPS_H = (1, 3, 6, 12, 24)
_NAMES = {"annual": "annual value", "profile": "usual for the hour", "world": "world average"}


class Step(NamedTuple):
    """Mean intensity [gCO2e/kWh] over a span, its range, and how it is known."""

    start: datetime
    end: datetime
    value: float
    low: float
    high: float
    quality: str


def build(answer: IntensityDoc, now: datetime, plan: PlanDoc | None = None) -> Document:
    """Return the page of an answer of `GET /v1/intensity/{zone}`, with a plan if there is one."""
    expected = list(map(_step, answer.forecast))
    after = expected[0].start if expected else None
    past = list(map(_step, answer.points))
    if after:  # what stands in for hours that something is expected of ends there
        past = [step._replace(end=min(step.end, after)) for step in past if step.start < after]
    steps = _joined([*past, *expected])
    slots = plan.plan if plan else []
    title = f"Grid intensity of {answer.zone}"
    stored = f"No {answer.signal} {answer.basis} value of this time is stored."
    if not steps:
        return Document(title, stored, f"{now:%Y-%m-%d}", tuple(_notices(answer.notices)))
    blocks: list[Block] = [
        *_notices(answer.notices),
        Facts(
            (
                ("Signal", f"{answer.signal}, location-based"),
                ("Basis", {"lifecycle": "life cycle"}.get(answer.basis, answer.basis)),
                ("Known", ", ".join(dict.fromkeys(_name(step.quality) for step in steps))),
            )
        ),
        _chart(answer.zone, steps, slots),
        *([Text(plan.summary)] if plan else []),
        *(_notices(plan.notices) if plan else []),
        Text(
            "Ranges hold eight times in ten. Hours that are not known have the annual value, which "
            "tells no hours apart."
        ),
    ]
    first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (steps[0].start, steps[-1].end))
    subtitle = f"From {first} to {last} UTC, as known on {now:%Y-%m-%d %H:%M} UTC."
    return Document(title, subtitle, f"{now:%Y-%m-%d}", tuple(blocks))


def _notices(notices: Sequence[Notice]) -> list[NoticeBlock]:
    return [NoticeBlock("info", row.code, row.message) for row in notices]


def _step(point: IntensityPointDoc) -> Step:
    figure = point.intensity_g_per_kwh
    start, end = (datetime.fromisoformat(text) for text in (point.start, point.end))
    return Step(start, end, figure.value, figure.low, figure.high, point.quality)


def _joined(steps: Sequence[Step]) -> list[Step]:
    """At most about `MOST` steps: means by time over whole hours, by quality."""
    if len(steps) <= MOST:
        return list(steps)
    span_h = (steps[-1].end - steps[0].start).total_seconds() / 3600
    width_s = 3600 * next((h for h in _STEPS_H if span_h / h <= MOST), _STEPS_H[-1])
    groups: dict[tuple[int, str], list[Step]] = defaultdict(list)
    for step in steps:
        groups[int(step.start.timestamp() // width_s), step.quality].append(step)
    return sorted(_mean(group) for group in groups.values())


def _mean(group: Sequence[Step]) -> Step:
    lengths = [(step.end - step.start).total_seconds() for step in group]
    value, low, high = (
        sum(map(mul, lengths, parts)) / sum(lengths)
        for parts in zip(*((step.value, step.low, step.high) for step in group), strict=True)
    )
    return Step(group[0].start, group[-1].end, value, low, high, group[0].quality)


def _name(quality: str) -> str:
    return _NAMES.get(quality, quality)


def _chart(zone: str, steps: Sequence[Step], slots: Sequence[SlotDoc]) -> Chart:
    parts = list(dict.fromkeys(_name(step.quality) for step in steps))
    lines = [
        (
            f"{step.start.astimezone(UTC):%Y-%m-%d %H:%M}",
            f"{number(step.value, 3)} g",
            f"{number(step.low, 3)} to {number(step.high, 3)} g",
            _name(step.quality),
        )
        for step in steps
    ]
    rows = [
        {
            "x": _stamp(step.start),
            "x2": _stamp(step.end),
            "y": step.value,
            "low": step.low,
            "high": step.high,
            "part": _name(step.quality),
            "tip": list(line),
        }
        for step, line in zip(steps, lines, strict=True)
    ]
    windows = [{"x": slot.start, "x2": slot.end} for slot in slots]
    values = [step.value for step in steps]
    alt = (
        f"Intensity of {zone} between {number(min(values), 3)} and {number(max(values), 3)} g of "
        f"CO2e per kWh over {len(steps)} steps, with the range of each"
    )
    spec = bands(rows, windows, parts, "gCO2e/kWh")
    titles = ("From [UTC]", "gCO2e/kWh", "Range", "Known by")
    table = data_table(f"Intensity of {zone}", titles, lines)
    return Chart(f"Grid intensity of {zone}", alt, spec, table)


def _stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
