"""The score falls when energy, hardware or timing get better, and only then (SCI, "Software")."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.records.records import DeviceRecord, IntervalRecord
from tests.documents import cluster_journal, irregular_grid
from tests.documents import scored as scored_by
from tests.journals import T0

SCALES = st.floats(1.01, 50)


def scored(records, intensity=None, **context):
    return scored_by(records, intensity or irregular_grid(), **context)


def terms(document):
    names = ("operational_g", "embodied_g", "total_g")
    return tuple(getattr(document, name).value for name in names)


BEFORE = terms(scored(cluster_journal()))


def changed(records, kind, **make):
    """The records with fields of one type replaced by functions of their old values."""
    return [
        replace(r, **{k: f(getattr(r, k)) for k, f in make.items()}) if isinstance(r, kind) else r
        for r in records
    ]


@settings(max_examples=25, deadline=None)
@given(SCALES)
def test_more_energy_is_more_operational_carbon_in_proportion(scale):
    records = changed(cluster_journal(), IntervalRecord, energy_j=lambda joules: joules * scale)
    operational, embodied, _ = terms(scored(records))
    assert operational == pytest.approx(BEFORE[0] * scale)
    assert embodied == BEFORE[1]


@settings(max_examples=25, deadline=None)
@given(SCALES)
def test_a_dirtier_grid_is_more_operational_carbon_in_proportion(scale):
    operational, embodied, _ = terms(scored(cluster_journal(), irregular_grid(scale=scale)))
    assert operational == pytest.approx(BEFORE[0] * scale)
    assert embodied == BEFORE[1]


@settings(max_examples=25, deadline=None)
@given(st.floats(1, 3), SCALES)
def test_a_worse_facility_is_more_operational_carbon_in_proportion(pue, scale):
    one = terms(scored(cluster_journal(pue=pue)))
    other = terms(scored(cluster_journal(pue=pue * scale)))
    assert other[0] == pytest.approx(one[0] * scale)
    assert other[1] == one[1]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.5, 20), SCALES)
def test_a_longer_life_is_less_embodied_carbon_in_proportion(years, scale):
    lives = [Quantity.exact(n, "years", "declared", "test") for n in (years, years * scale)]
    one, other = (terms(scored(cluster_journal(), lifetime=life)) for life in lives)
    assert other[1] == pytest.approx(one[1] / scale)
    assert other[0] == one[0]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 0.95))
def test_a_smaller_share_of_a_device_is_less_embodied_carbon_in_proportion(share):
    records = changed(cluster_journal(gpus=1), DeviceRecord, share=lambda whole: whole * share)
    whole, part = terms(scored(cluster_journal(gpus=1))), terms(scored(records))
    assert part[1] == pytest.approx(whole[1] * share)
    assert part[0] == whole[0]


@pytest.mark.parametrize("gpus", [1, 3, 7])
def test_fewer_accelerators_are_less_embodied_carbon(gpus):
    fewer, more = (terms(scored(cluster_journal(gpus=n))) for n in (gpus, gpus + 1))
    # Each brings itself and its eighth of the server.
    assert more[1] / fewer[1] == pytest.approx((gpus + 1) / gpus)


def test_the_same_work_in_a_cleaner_hour_is_less_carbon():
    def at_hour(hours):
        moved = timedelta(hours=hours)
        records = cluster_journal(gpus=1, seconds=3600.0, step_s=300.0)
        shifted = []
        for record in records:
            names = [
                n for n in ("started_at", "start", "end", "at", "ended_at") if hasattr(record, n)
            ]
            shifted.append(replace(record, **{n: getattr(record, n) + moved for n in names}))
        return terms(scored(shifted))

    def mean_intensity(hours):
        start = T0 + timedelta(hours=hours)
        points = irregular_grid().points("DE", start, start + timedelta(hours=1))
        # The test grid turns 20 minutes after the full hour.
        return points[0].intensity.value / 3 + points[1].intensity.value * 2 / 3

    found = {hours: at_hour(hours) for hours in range(6)}
    cleanest, dirtiest = (pick(range(6), key=mean_intensity) for pick in (min, max))
    assert found[cleanest][2] < found[dirtiest][2]
    assert {embodied for _, embodied, _ in found.values()} == {found[0][1]}


@settings(max_examples=25, deadline=None)
@given(SCALES)
def test_more_work_from_the_same_is_a_lower_score_in_proportion(scale):
    one = scored(cluster_journal())
    records = [
        replace(r, amount=r.amount * scale) if r.TYPE == "count" else r for r in cluster_journal()
    ]
    other = scored(records)
    before, after = (doc.sci[0].g_per_unit.value for doc in (one, other))
    assert after == pytest.approx(before / scale)
    assert terms(other) == terms(one)
