"""The stored terms give back the stored sums."""

from datetime import timedelta
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.units import kwh_from_j, s_from_years
from gramwatt.sci.records.merge import merge
from gramwatt.sci.score import timeseries
from gramwatt.sci.score.allocation import allocate
from gramwatt.sci.score.assess import assess
from gramwatt.sci.score.functional_unit import divide
from gramwatt.sci.score.identify import identify
from gramwatt.sci.score.operational import join
from gramwatt.sci.score.score import ScoreContext, document, score
from tests.documents import CATALOG, journal_of
from tests.documents import scored as scored_by
from tests.journals import H100, T0, FakeGrid


def hourly(values):
    """A grid that changes every hour, from half an hour before T0 on."""
    return FakeGrid(*values, first=T0 - timedelta(minutes=30))


def job(joules, gpus=2):
    boards = [
        (f"GPU-{g}", H100, [(600 * n, 600 * n + 600, j * (1 + g)) for n, j in enumerate(joules)])
        for g in range(gpus)
    ]
    length = 600 * len(joules)
    cpu = {"device_class": "cpu", "name": "unknown processor", "units": 32.0}
    head = {"pue": 1.2, "units": ("token",), "end_s": length + 0.5}
    more = [lambda writer: writer.count(1e6, "token")]
    return journal_of(*boards, ("cpu", cpu, [(0, length, 5000.0)]), more=more, **head)


def scored(records, values, **context):
    return scored_by(records, hourly(values), **context)


def test_only_the_first_step_looks_names_up(monkeypatch):
    """What later steps need of the catalog, the identified job holds."""
    merged = merge(job([1e5, 2e5]))
    context = ScoreContext(CATALOG, hourly([100.0, 300.0]))
    whole = score(merged, context)
    identified = identify(merged, context)
    for name in ("hardware", "cpu", "region", "zone", "world", "lifetime"):
        monkeypatch.setattr(Catalog, name, None)
    scored = divide(identified, join(identified), allocate(identified))
    assert document(scored, assess(scored)) == whole


def operational_of(doc):
    pue = doc.method.pue.value
    return fsum(
        kwh_from_j(joules) * intensity * pue
        for device in doc.steps.devices
        for joules, intensity in zip(device.energy_j, device.intensity_g_per_kwh, strict=True)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=24), st.integers(1, 30))
def test_steps_give_back_energy_and_operational_emissions(joules, allowed):
    values = [100.0 + 37 * n for n in range(8)]
    before = timeseries.MAX_STEPS
    timeseries.MAX_STEPS = allowed
    try:
        doc = scored(job(joules), values)
    finally:
        timeseries.MAX_STEPS = before
    energy = fsum(j for device in doc.steps.devices for j in device.energy_j)
    assert kwh_from_j(energy) == pytest.approx(doc.energy_kwh.value, rel=1e-12)
    assert operational_of(doc) == pytest.approx(doc.operational_g.value, rel=1e-12)
    assert fsum(doc.steps.reserved_s) == pytest.approx(doc.duration_s, rel=1e-12)
    assert len(doc.steps.reserved_s) <= allowed


def test_steps_lie_on_the_edges_of_the_grid():
    doc = scored(job([1000.0] * 9), [100, 200, 300])
    # 90 min from 08:00 on points that turn at half past.
    assert [edge[11:19] for edge in doc.steps.edges] == [
        "08:00:00",
        "08:30:00",
        "09:30:00",
        "09:30:00",
    ]
    assert doc.steps.reserved_s == [1800, 3600, 0.5]
    assert doc.steps.devices[0].energy_j == pytest.approx([3000, 6000, 0])
    assert doc.steps.devices[0].intensity_g_per_kwh == pytest.approx([100, 200, 300])


def test_embodied_terms_give_back_embodied_carbon():
    doc = scored(job([1000.0] * 6), [100, 200, 300])
    sums = [
        term.te_g.value
        * (term.time_reserved_s / s_from_years(term.lifetime_years))
        * (term.resources_reserved / term.resources_total)
        for term in doc.embodied_terms
    ]
    for ours, term in zip(sums, doc.embodied_terms, strict=True):
        assert ours == pytest.approx(term.embodied_g.value, rel=1e-12)
    assert fsum(sums) == pytest.approx(doc.embodied_g.value, rel=1e-12)


def test_sixteen_accelerators_in_a_box_stay_within_one_whole():
    doc = scored(job([1000.0], gpus=16), [100, 200])
    host = doc.embodied_terms[-1]
    assert (host.resources_reserved, host.resources_total) == (16, 16)
    assert host.te_g.value == pytest.approx(2 * 5_700_000)


def test_a_job_without_readings_has_steps_without_energy():
    doc = scored_by(journal_of(("GPU-1", {}, [])))
    assert doc.energy_kwh is None
    assert doc.steps.devices == []
