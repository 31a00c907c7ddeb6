"""The model of the host's power: its figures, and the range that energy by it has."""

import pytest

from gramwatt.sci.base.host_model import CPU_MODEL, RAM_MODEL, cpu_power_w, ram_power_w
from gramwatt.sci.base.meters import energy, relative_range
from gramwatt.sci.base.quantity import Kind
from gramwatt.sci.catalog.catalog import load_catalog


@pytest.mark.parametrize(("load", "watts"), [(0.0, 0.63), (0.25, 1.31), (1.0, 3.35)])
def test_a_processor_lies_on_a_line_between_idle_and_full(load: float, watts: float) -> None:
    assert cpu_power_w(64, load) == pytest.approx(64 * watts)


def test_memory_by_size() -> None:
    assert ram_power_w(512 * 2**30) == pytest.approx(97.28)


@pytest.mark.parametrize(
    ("meter", "low", "high"), [(CPU_MODEL, 42, 175), (RAM_MODEL, 47, 206), ("other", 60, 140)]
)
def test_estimated_energy_has_the_range_of_what_estimated_it(
    meter: str, low: float, high: float
) -> None:
    found = energy(100.0, "estimated", meter)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.value, found.unit, found.source) == (100.0, "J", meter)


def test_what_a_counter_gave_keeps_the_range_of_its_kind() -> None:
    found = energy(100.0, "measured", CPU_MODEL)
    assert (found.low, found.high) == (pytest.approx(95), pytest.approx(105))


def test_the_range_holds_eight_in_ten_of_what_counters_would_give() -> None:
    """Every CPU of the catalog, at the shares of its rated power that RAPL had at AWS (Teads)."""
    held = [
        found.low <= cpu.tdp_w * share <= found.high
        for cpu in load_catalog().all_cpus()
        if cpu.tdp_w and cpu.threads
        for load, share in ((0.1, 0.32), (0.5, 0.75), (1.0, 1.02))
        for found in [energy(cpu_power_w(cpu.threads, load), "estimated", CPU_MODEL)]
    ]
    assert len(held) >= 70
    assert sum(held) >= 0.8 * len(held)


@pytest.mark.parametrize("kind", ["measured", "integrated"])
def test_the_range_of_another_meter_says_that_its_evidence_is_of_nvml(kind: Kind) -> None:
    own, other = relative_range(kind, "nvml-counter"), relative_range(kind, "rapl")
    assert other[:2] == own[:2]
    assert other.source == f"as for NVML, since none is stated for rapl: {own.source}"
    assert relative_range("catalog", "rapl").source == relative_range("catalog", "nvml").source
