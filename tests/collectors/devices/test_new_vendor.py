"""A vendor is added by one file and one line: docs/extending.md."""

from __future__ import annotations

import sys

import pytest

from gramwatt.collectors import devices
from gramwatt.collectors.devices import board
from gramwatt.collectors.devices.board import DevicePort, Place
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.records import DeviceRecord
from gramwatt.sci.score.score import ScoreContext, score
from gramwatt.sci.suggest.jobs import for_job
from tests.collectors.rig import by_type, energy_j
from tests.collectors.vendor_fakes import VendorRig

FILE = '''
"""Acme cards: power of each from /sys/class/acme."""

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import Board, DevicePort, Visible


class Acme(DevicePort):
    vendor = title = "Acme"
    meter = "acme-sysfs"
    variables = ("ACME_VISIBLE_CARDS",)

    @classmethod
    def present(cls, place):
        return (place.root / "sys/class/acme").exists()

    def open(self):
        self.cards = sorted((self.root / "sys/class/acme").glob("card*"))

    def count(self):
        return len(self.cards)

    def board(self, index):
        return Board(index, f"acme-{index}", "Acme X1", memory_b=64 * 2**30)

    def power_mw(self, index):
        return float(self.cards[index].read_text())

    def visible(self, environ, boards):
        if self.variables[0] not in environ:
            return Visible.whole(boards)
        return visibility.by_runtime(self.variables[0], environ, boards)
'''
PART = """
[hardware.acme-x1]
source = "the maker's page, 2026"
name = "Acme X1"
class = "accelerator"
host_class = "card"
tdp_w = 300
memory_gb = 64
bf16_tensor_tflops = 400
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A machine with two Acme cards of 200 W, and a gramwatt with the vendor's file and line."""
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "acme.py").write_text(FILE)
    monkeypatch.setattr(devices, "__path__", [*devices.__path__, str(tmp_path / "file")])
    monkeypatch.setattr(board, "VENDORS", [*board.VENDORS, "acme:Acme"])
    monkeypatch.delitem(sys.modules, "gramwatt.collectors.devices.acme", raising=False)
    cards = tmp_path / "root" / "sys" / "class" / "acme"
    cards.mkdir(parents=True)
    for number in range(2):
        (cards / f"card{number}").write_text("200000")
    return Place(tmp_path / "root", {}, "linux", "x86_64")


def test_a_made_up_vendor_is_measured_scored_and_gets_an_answer(tmp_path, place):
    def acme(_: VendorRig) -> list[DevicePort]:
        return [port for port in board.ports(place) if port.vendor == "Acme"]

    rig = VendorRig(tmp_path / "home", acme)
    rig.job(60.0, environ={"ACME_VISIBLE_CARDS": "1"})
    (device,) = [d for d in rig.merged().devices if d.record.device_class == "accelerator"]
    assert (device.record.device_id, device.record.meter) == ("acme-1", "acme-sysfs")
    assert energy_j(device.intervals, "integrated") == pytest.approx(200 * 60, rel=1e-3)
    # With processor and memory, whose share a later line may correct by what the job used of it.
    assert len({found.device_id for found in by_type(rig.records(), DeviceRecord)}) == 3

    catalog = Catalog.with_overlay(PART)
    document = score(rig.merged(), ScoreContext(catalog, AnnualIntensity(catalog)))
    (part,) = [d for d in document.devices if d.device_class == "accelerator"]
    assert part.hardware == "acme-x1"
    assert document.energy_kwh is not None
    assert document.energy_kwh.value * 3.6e6 > 200 * 60  # the host comes on top
    answer = for_job(document, catalog)
    # Of a vendor whose power under load nobody published, time alone can be compared.
    assert answer.summary.startswith("Hardware is not ranked: no published power of 1 x Acme X1")
    assert answer.compared_with is not None
    estimate = answer.estimate
    assert estimate is not None
    # The card's power as measured, for a minute, with a host of 45 % of it.
    assert estimate.energy_kwh is not None
    assert estimate.energy_kwh.value == pytest.approx(0.2 * 1.45 / 60, rel=1e-3)
    assert estimate.total_g is not None
    assert estimate.total_g.low > 0


@pytest.mark.parametrize(("text", "expected"), [("acme-1", [1]), ("ACME-0", [0]), ("acme", [])])
def test_a_made_up_vendors_variable_may_name_a_uuid(place, text, expected):
    (port,) = [port for port in board.ports(place) if port.vendor == "Acme"]
    port.open()
    boards = [port.board(index) for index in range(port.count())]
    found = port.visible({"ACME_VISIBLE_CARDS": text}, boards)
    assert [item.board.ordinal for item in found.billed] == expected
    assert len(found.remarks) == (not expected)
