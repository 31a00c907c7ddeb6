"""A host of which only some packages can be read: nothing of it may pass for measured."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from gramwatt.collectors.common.clock import Timeline
from gramwatt.collectors.devices.base import SourceAbsent
from gramwatt.collectors.host import codecarbon_process, rapl
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.meter.device_manager import DeviceManager
from gramwatt.collectors.testing.virtual_clock import VirtualClock
from gramwatt.sci.journal.records import DeviceRecord
from tests.collectors.rig import MACHINE

FIRST = rapl.Domain("package-0", "cpu", Path("/p0/energy_uj"), 262_143_328_850)
PARTLY = rapl.Counters((FIRST,), (Path("/p1/energy_uj"),))
WHOLE = rapl.Counters((FIRST,), ())


@pytest.fixture
def codecarbon(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A codecarbon that finds RAPL available, as it does with one package of two."""
    cpu: Any = ModuleType("codecarbon.core.cpu")
    cpu.is_rapl_available = lambda: True
    core: Any = ModuleType("codecarbon.core")
    core.cpu = cpu
    whole: Any = ModuleType("codecarbon")
    whole.core, whole.OfflineEmissionsTracker = core, lambda **_: cpu.is_rapl_available()
    for module in (whole, core, cpu):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(codecarbon_process, "_tap", lambda: None)
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setenv("USERPROFILE", "/")
    return cpu


@pytest.mark.parametrize(
    ("found", "reads_rapl", "kind"),
    [(WHOLE, True, "measured"), (PARTLY, False, "estimated"), (rapl.Counters((), ()), False, "")],
)
def test_codecarbon_reads_rapl_only_where_every_package_can_be_read(
    codecarbon: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    found: rapl.Counters,
    reads_rapl: bool,
    kind: str,
) -> None:
    monkeypatch.setattr(codecarbon_process, "find_counters", lambda: found)
    tracker, said, _ = codecarbon_process._tracker(2.0)
    assert tracker is reads_rapl  # what the tracker found when it chose its source
    assert said == (kind or "estimated")


def test_the_job_is_told_and_its_processor_estimated(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = []
    notices: list[str] = []

    def no_nvml() -> Any:
        raise SourceAbsent("no NVIDIA driver here")

    clock = VirtualClock()
    around = Dependencies(
        environ={},
        clock=clock,
        random=Random(1),
        machine=lambda: MACHINE,
        rapl=lambda: True,
        counters=lambda: PARTLY,
        open_port=no_nvml,
        vendors=lambda _: [],
        host_command=["never started"],
    )

    def put(record: type[Any], **fields: Any) -> None:
        if record is DeviceRecord:
            records.append(fields)

    timeline = Timeline.from_mark(clock, clock.mono_ns(), clock.wall_ns(), None)
    folder = tmp_path / "home" / "spool" / "job" / "n-1"
    notify = lambda code, text: notices.append(f"{code}: {text}")  # noqa: E731
    DeviceManager(around, timeline, "n-1", put, notify, folder).begin(None, timeline.start_ns)
    assert (records[0]["device_id"], records[0]["kind"]) == ("n-1-cpu", "estimated")
    (said,) = (text for text in notices if "RAPL" in text)
    assert said == (
        "meter-source-absent: RAPL counters of 1 processor package(s) cannot be read "
        "(`gramwatt doctor` has the fix); CPU energy is estimated by a model."
    )
