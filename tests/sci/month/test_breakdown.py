"""How a job's terms divide, by hand."""

import pytest

from gramwatt.sci.month.breakdown import breakdown, hardware_of
from tests.documents import journal_of, scored
from tests.journals import H100


def job(*, busy=0.9, pue=1.25, **head):
    """An H100 with 3 MJ and a processor with 1 MJ."""
    cpu = {"device_class": "cpu", "name": "Intel Xeon Platinum 8480C", "units": 112}
    board = ("GPU-0", H100, [(0, 3600, 3e6, {"utilisation_mean": busy})])
    model = ("cpu-0", {**cpu, "kind": "estimated"}, [(0, 3600, 1e6)])
    return scored(journal_of(board, model, pue=pue, end_s=3600, **head))


def test_electricity_divides_by_energy_and_overhead():
    # 3 of 4 MJ and 1 of 4 MJ; of 1.25 at the building's meter 0.25 is overhead.
    found = breakdown(job())
    assert found["operational"] == pytest.approx({"gpu": 0.6, "cpu": 0.2, "overhead": 0.2})
    assert found["boundary"] == pytest.approx({"accelerators": 0.75, "facility": 1.25})
    assert sum(found["embodied"].values()) == pytest.approx(1.0)


def test_an_accelerator_below_5_percent_is_idle():
    assert breakdown(job(busy=0.9))["idle"] == {}
    idle = breakdown(job(busy=0.04))["idle"]
    assert idle["energy"] == idle["operational"] == pytest.approx(0.75)
    assert 0 < idle["embodied"] < 1
    assert breakdown(job(busy=None))["idle"] == pytest.approx({"not seen": 0.75})


def test_hardware_is_named_by_catalog_id():
    assert hardware_of(job()) == "nvidia-h100-sxm5-80"
