"""The emission factors of a month: energy x PUE x factor by zone and source."""

from __future__ import annotations

import numpy as np

from gramwatt.sci.analysis.factors import GRAMS, HIGH, KWH, LOW, FactorKey
from gramwatt.sci.analysis.trail import FactorRow
from gramwatt.sci.base.quantity import Kind, Quantity
from gramwatt.service.months.sums.arrays import Parts
from gramwatt.service.months.sums.figures import by
from gramwatt.service.months.sums.totals import Sums, by_job


def factor_rows(parts: Parts) -> list[FactorRow]:
    """Return the rows of the factor table, most carbon first; they sum to E and O of the month."""
    blocks = (KWH, GRAMS, LOW, HIGH)
    texts = sorted({key for block, key in parts.keys_of_quality if block == f"{KWH} by"})
    if not texts:
        return []
    cell_of = np.full((len(parts.keys_of_quality), 2), -1)
    cells = {text: n for n, text in enumerate(texts)}
    for number, (block, key) in enumerate(parts.keys_of_quality):
        if block.removesuffix(" by") in blocks:
            cell_of[number] = blocks.index(block.removesuffix(" by")), cells[key]
    kind, cell = cell_of[parts.quality.what].T
    amounts = [
        by(cell[kind == n], parts.quality.amount[kind == n], len(texts)) for n in range(len(blocks))
    ]
    mine = kind == 0
    jobs, of_job = parts.quality.job[mine].astype(np.int64), cell[mine]
    totals = by_job(parts, jobs, of_job, len(texts))
    counts = np.bincount(of_job, minlength=len(texts))
    rows = [
        _row(
            FactorKey.from_text(text),
            int(counts[n]),
            _part(totals.energy_kwh, n, float(amounts[0][n])),
            _part(totals.operational_g, n, float(amounts[1][n])),
            *(float(of_block[n]) for of_block in amounts[2:]),
        )
        for n, text in enumerate(texts)
    ]
    return sorted(rows, key=lambda row: -row.operational_g["value"])


def _part(sums: Sums, cell: int, amount: float) -> Quantity:
    """Return an amount with the relative range of the sum over its jobs."""
    whole = sums.quantity(cell)
    assert whole is not None  # a job without E and O is in no row
    if whole.value <= 0:
        return Quantity.exact(amount, whole.unit, whole.kind, *whole.sources)
    return whole.scaled(amount / whole.value)


def _row(
    key: FactorKey, jobs: int, energy: Quantity, grams: Quantity, low_g: float, high_g: float
) -> FactorRow:
    value, low, high = key.pue
    kind: Kind = key.pue_kind  # type: ignore[assignment]
    pue = Quantity(value, low, high, "1", kind, key.pue_source)
    facility = energy.value * value
    ends = [amount / facility for amount in (grams.value, low_g, high_g)]
    factor = Quantity(
        ends[0],
        min(ends[0], ends[1]),
        max(ends[0], ends[2]),
        "gCO2e/kWh",
        grams.kind,
        key.source,
    )
    return FactorRow(
        zone=key.zone,
        jobs=jobs,
        energy_kwh=energy.to_doc(),
        pue=pue.to_doc(),
        factor_g_per_kwh=factor.to_doc(),
        operational_g=grams.to_doc(),
        quality=key.quality,
        source=key.source,
        publisher=None,
        edition=None,
        licence=None,
        link=None,
        files=[],
    )
