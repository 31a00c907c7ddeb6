"""Kinds of jobs with known truths: how often the ranges of their scores hold them.

Each job is written as a journal and scored as in production. The truth is drawn here, with numpy
and without the product's arithmetic: every input of the document by its own published range, an
input that several figures share once. A published range is the 10th and the 90th percentile around
a median (`sci/figures/quantity.py`), so the truth lies below an input's value as often as above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.document import DeviceDoc, JobDoc
from gramwatt.sci.figures.meters import SHARED, energy
from gramwatt.sci.figures.quantity import EIGHT_IN_TEN, Effect, Quantity
from gramwatt.sci.figures.units import J_PER_KWH, S_PER_YEAR
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)
from gramwatt.sci.score.score import ScoreContext, score

DRAWS = 20_000
START = datetime(2026, 5, 1, tzinfo=UTC)
STEP_S = 300.0
TERMS = ("energy_kwh", "operational_g", "embodied_g", "total_g", "sci")
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A kind of job: devices of one name on nodes, with host meters, place and length."""

    name: str
    part: str = "NVIDIA H100 80GB HBM3"
    devices: int = 8
    nodes: int = 1
    watts: float = 500.0
    meter: str = "measured"
    host: str | None = "estimated"
    hours: float = 10.0
    place: dict[str, Any] = field(default_factory=lambda: {"zone": "DE", "pue": 1.2})


H100 = "NVIDIA H100 80GB HBM3"
KINDS = (
    Kind("1 H100, 1 h, Germany", devices=1, hours=1.0),
    Kind("8 H100, 10 h, Germany"),
    Kind("8 H100, 10 min, California", hours=1 / 6, place={"zone": "US-CAL-CISO", "pue": 1.1}),
    Kind("8 H100, 30 d, Norway", hours=720.0, place={"zone": "NO", "pue": 1.1}),
    Kind("8 H100, 10 h, South Africa", place={"zone": "ZA", "pue": 1.4}),
    Kind("8 H100, PUE not declared", place={"zone": "FR"}),
    Kind("8 H100 in a cloud region", place={"region": "aws:eu-west-1"}),
    Kind("8 H100 without a host meter", host=None),
    Kind("8 H100, host by counter", host="measured"),
    Kind("64 H100 on 8 nodes", devices=64, nodes=8),
    Kind("8 A100, sampled power", part="NVIDIA A100-SXM4-80GB", meter="integrated", watts=300),
    Kind("1 A100 slice", part="NVIDIA A100-SXM4-80GB", devices=1, meter="attributed", watts=100),
    Kind("1 T4, 1 h, Great Britain", part="Tesla T4", devices=1, watts=60, hours=1.0,
         place={"zone": "GB", "pue": 1.2}),
    Kind("4 L4, 1 d, Texas", part="NVIDIA L4", devices=4, watts=60, hours=24.0,
         place={"zone": "US-TEX-ERCO", "pue": 1.15}),
    Kind("1 RTX 4090 at home", part="NVIDIA GeForce RTX 4090", devices=1, watts=350, hours=3.0,
         place={"zone": "DE"}),
    Kind("1 V100, 7 d, Japan", part="Tesla V100-SXM2-16GB", devices=1, watts=200, hours=168.0,
         place={"zone": "JP-TK", "pue": 1.3}),
    Kind("8 MI300X, 10 h, Brazil", part="AMD Instinct MI300X", watts=600,
         place={"zone": "BR-CS", "pue": 1.3}),
    Kind("2 parts that the catalog lacks", part="Acme Accelerator 9000", devices=2),
    Kind("a processor by its counter", devices=0, host="measured", hours=2.0),
    Kind("a processor by a model", devices=0, hours=2.0, place={"zone": "PL"}),
    Kind("8 H100, place not known", place={}),
    Kind("16 A100 on 2 nodes, sampled", part="NVIDIA A100-SXM4-80GB", devices=16, nodes=2,
         meter="integrated", watts=300, place={"zone": "US-MIDA-PJM", "pue": 1.1}),
    Kind("1 L40S, 3 h, India", part="NVIDIA L40S", devices=1, watts=250, hours=3.0,
         place={"zone": "IN-WE", "pue": 1.5}),
)  # fmt: skip


def report(draws: int = DRAWS, *, apart: bool = False) -> Iterator[dict[str, Any]]:
    """The share of truths in the range of each term, by kind of job, and the range of its SCI.

    All boards of a type in a job have one error, as ranges take it; if they are `apart`, each board
    has that part of it for itself which boards of another job have (`SHARED`).
    """
    catalog = load_catalog()
    context = ScoreContext(catalog, AnnualIntensity(catalog))
    for number, kind in enumerate(KINDS):
        document = score(merge(list(_journal(kind))), context)
        end = START + timedelta(hours=kind.hours)
        [point] = context.intensity.points(document.zone, START, end)
        grid = point.intensity.inputs.values()
        source = np.random.default_rng(number)
        truths = _truths(document, grid, source, draws, apart=apart)
        published = {term: getattr(document, term) for term in TERMS[:-1]}
        published["sci"] = document.sci[0].g_per_unit
        covered = {term: _covered(published[term], truths[term]) for term in TERMS}
        sci = published["sci"]
        yield {"job": kind.name, **covered, "width": (sci.low / sci.value, sci.high / sci.value)}


def _journal(kind: Kind) -> Iterator[AnyRecord]:
    seconds = kind.hours * 3600
    for number in range(max(kind.nodes, 1)):
        node = f"node-{number}"
        lines = _Lines({"job_id": "job", "node": node, "writer": f"w{number}"})
        yield JobRecord(**lines.next(), started_at=START, role="command", **kind.place)
        per_node = kind.devices // kind.nodes
        for gpu in range(per_node):
            of_gpu = {"device_class": "gpu", "name": kind.part, "meter": "nvml"}
            yield from lines.device(f"GPU-{number}-{gpu}", of_gpu, kind.meter, kind.watts, seconds)
        if kind.host:
            meter = "rapl" if kind.host == "measured" else "host-model"
            of_cpu = {"device_class": "cpu", "name": "Intel Xeon Platinum 8480C", "meter": meter}
            yield from lines.device(f"{node}-cpu", of_cpu, kind.host, 250.0, seconds)
        yield CountRecord(**lines.next(), at=START, unit="token", amount=1e6)
        ended = START + timedelta(seconds=seconds)
        yield EndRecord(**lines.next(), ended_at=ended, state="completed", exit_code=0)


class _Lines:
    """Records of one writer, numbered."""

    def __init__(self, who: dict[str, Any]) -> None:
        self._who, self._seq = who, 0

    def next(self) -> dict[str, Any]:
        self._seq += 1
        return {**self._who, "seq": self._seq}

    def device(
        self, device_id: str, fields: dict[str, Any], kind: str, watts: float, seconds: float
    ) -> Iterator[AnyRecord]:
        yield DeviceRecord(**self.next(), device_id=device_id, kind=kind, **fields)
        since = 0.0
        while since < seconds:
            until = min(since + STEP_S, seconds)
            yield IntervalRecord(
                **self.next(),
                device_id=device_id,
                start=START + timedelta(seconds=since),
                end=START + timedelta(seconds=until),
                energy_j=watts * (until - since),
                kind=kind,
            )
            since = until


def _truths(
    document: JobDoc,
    hours: Iterable[Effect],
    source: np.random.Generator,
    draws: int,
    *,
    apart: bool,
) -> dict[str, Values]:
    """E, O, M, C and C per R of the job in many worlds that its inputs allow.

    `hours` are the effects of what the grid's intensity in its hours depends on.
    """
    drawn: dict[str, Values] = {}

    def one(name: str, figure: Quantity) -> Values:
        """The input of this name, the same wherever it stands, as a factor of its value."""
        if name not in drawn:
            drawn[name] = _draw(figure, source, draws)
        return drawn[name]

    energy_kwh = np.zeros(draws)
    for device in document.devices:
        for kind, joules in device.kinds.items():
            figure = energy(joules, kind, device.meter)  # type: ignore[arg-type]
            factor = np.ones(draws)
            for of, share in _sharing(device, kind) if apart else [(device.name, 1.0)]:
                factor *= one(f"{device.meter} {kind} {of}", figure) ** math.sqrt(share)
            energy_kwh += joules / J_PER_KWH * factor
    method = document.method
    grid, pue, life = method.intensity_g_per_kwh, method.pue, method.lifetime_years
    of_hours = _product(hours, source, draws)
    operational = energy_kwh * grid.value * of_hours * pue.value * one("PUE", pue)
    embodied = np.zeros(draws)
    for share in document.embodied_terms:
        te_g, years = share.te_g, share.lifetime_years * one("life", life)
        part = share.resources_reserved / share.resources_total
        reserved_years = share.time_reserved_s / S_PER_YEAR
        embodied += te_g.value * one(te_g.source, te_g) * part * reserved_years / years
    total = operational + embodied
    count = document.sci[0].count
    return dict(zip(TERMS, (energy_kwh, operational, embodied, total, total / count), strict=True))


def _sharing(device: DeviceDoc, kind: str) -> list[tuple[str, float]]:
    """Return the sources of a reading's error, each with its share of the variance."""
    if kind not in SHARED:
        return [("", 1.0)]
    by_type, by_load = SHARED[kind]  # type: ignore[index]
    own = 1 - by_type - by_load
    return [(device.device_id, own), (device.name, by_type), ("load", by_load)]


def _draw(figure: Quantity, source: np.random.Generator, draws: int) -> Values:
    """Factors of a figure's value, whose logarithm is half normal below 0 and half normal above."""
    below = math.log(figure.value / figure.low)
    above = math.log(figure.high / figure.value)
    return _half_normals(below, above, source, draws)


def _product(effects: Iterable[Effect], source: np.random.Generator, draws: int) -> Values:
    """Factors of a figure that has these effects of independent inputs; equal ends are certain."""
    found = np.ones(draws)
    for low, high in effects:
        certain = low == high
        found *= math.exp(low) if certain else _half_normals(-low, high, source, draws)
    return found


def _half_normals(below: float, above: float, source: np.random.Generator, draws: int) -> Values:
    if below + above == 0:
        return np.ones(draws)
    z = np.abs(source.standard_normal(draws)) / EIGHT_IN_TEN
    down = source.random(draws) < (0.5 if below and above else float(below > 0))
    return np.asarray(np.exp(np.where(down, -below * z, above * z)))


def _covered(figure: Quantity | None, truths: Values) -> float | None:
    if figure is None:
        return None
    return float(((truths >= figure.low) & (truths <= figure.high)).mean())


def outside(rows: Sequence[dict[str, Any]], low: float, high: float) -> list[str]:
    """Every term of a job whose coverage lies outside, in words."""
    return [
        f"{row['job']}, {term}: {row[term]}"
        for row in rows
        for term in TERMS
        if row[term] is None or not low <= row[term] <= high
    ]
