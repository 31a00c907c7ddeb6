"""The model of the host's power: its figures, and the range that energy by it has."""

import re

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.host_model import (
    CPU_MODEL,
    CPU_MODEL_RATED,
    CPU_MODEL_UNLIKE,
    RAM_MODEL,
    cpu_power,
    ram_power_w,
)
from gramwatt.sci.figures.meters import energy, relative_range


@pytest.mark.parametrize(("load", "watts"), [(0.0, 0.63), (0.25, 1.31), (1.0, 3.35)])
def test_a_processor_lies_on_a_line_between_idle_and_full(load, watts):
    assert cpu_power(64).at(load) == pytest.approx(64 * watts)


def test_a_rated_power_is_where_the_range_ends_from_half_load_on():
    power = cpu_power(128, rated_w=280)
    assert (power.meter, power.at(0)) == (CPU_MODEL_RATED, pytest.approx(128 * 0.63))
    assert power.at(0.5) == power.at(1.0) == pytest.approx(280 / 1.3)
    assert power.at(0.25) == pytest.approx((power.at(0) + power.at(1)) / 2)
    assert energy(power.at(1.0), "estimated", power.meter).high == pytest.approx(280)


def test_no_processor_has_a_range_above_the_highest_rated_power_of_any():
    for threads in (128, 384, 2048):
        power = cpu_power(threads, sockets=1, like_evidence=False)
        assert power.at(0) <= power.at(0.5) <= power.at(1)
        assert energy(power.at(1), "estimated", power.meter).high <= 500.001


def test_memory_by_size():
    assert ram_power_w(512 * 2**30) == pytest.approx(97.28)


@pytest.mark.parametrize(
    ("meter", "low", "high"),
    [(CPU_MODEL, 42, 175), (CPU_MODEL_UNLIKE, 20, 175), (RAM_MODEL, 47, 206), ("other", 60, 140)],
)
def test_estimated_energy_has_the_range_of_what_estimated_it(meter, low, high):
    found = energy(100.0, "estimated", meter)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.value, found.unit, found.source) == (100.0, "J", meter)


def test_what_a_counter_gave_keeps_the_range_of_its_kind():
    found = energy(100.0, "measured", CPU_MODEL)
    assert (found.low, found.high) == (pytest.approx(95), pytest.approx(105))


def test_the_range_holds_eight_in_ten_of_what_counters_would_give():
    """At the shares of rated power that RAPL had at AWS (Teads).

    With its rated power known, each processor of the catalog is asked. Without it each processor of
    servers is asked, of which the model was made; 76 to 88 % count as eight in ten.
    """
    servers = re.compile(r"amd-epyc|intel-xeon-(?!w|e-|e3)")
    for rated in (False, True):
        held = [
            figure.low <= cpu.tdp_w * min(share, 1.0) <= figure.high * 1.001
            for cpu in load_catalog().all_cpus()
            if cpu.tdp_w and cpu.threads and (rated or servers.match(cpu.id))
            for load, share in ((0.1, 0.32), (0.5, 0.75), (1.0, 1.02))
            for power in [cpu_power(cpu.threads, rated_w=cpu.tdp_w if rated else None)]
            for figure in [energy(power.at(load), "estimated", power.meter)]
        ]
        assert len(held) >= 600
        assert sum(held) >= (0.9 if rated else 0.76) * len(held)


def test_what_a_model_gave_in_place_of_a_counter_is_the_models():
    figure = energy(100.0, "estimated", f"rapl+{CPU_MODEL}")
    assert (figure.low, figure.high) == (pytest.approx(42), pytest.approx(175))
    assert (figure.source, energy(100.0, "measured", f"rapl+{CPU_MODEL}").source) == (
        CPU_MODEL,
        "rapl",
    )


@pytest.mark.parametrize("kind", ["measured", "integrated"])
def test_the_range_of_another_meter_says_that_its_evidence_is_of_nvml(kind):
    own, other = relative_range(kind, "nvml-counter"), relative_range(kind, "rapl")
    assert other[:2] == own[:2]
    assert other.source == f"as for NVML, since none is stated for rapl: {own.source}"
    assert relative_range("catalog", "rapl").source == relative_range("catalog", "nvml").source
