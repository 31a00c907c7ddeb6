"""RAPL: which counters count, how they wrap, and what the host's meter makes of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.collectors.devices.board import Place
from gramwatt.collectors.doctor import host as doctor
from gramwatt.collectors.doctor.finding import Target
from gramwatt.collectors.host import model, rapl
from gramwatt.collectors.host.devices import HostDevices
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.host.bench import HostBench
from tests.collectors.rig import MACHINE
from tests.collectors.vendor_fakes import write
from tests.collectors.virtual_clock import VirtualClock

RANGE_UJ = 262_143_328_850  # an Intel server's max_energy_range_uj
AMD_RANGE_UJ = 65_532_610_987
DOCS = Path(__file__).parents[3] / "docs/measuring.md"
FIRST = rapl.Domain("package-0", "cpu", Path("/p0/energy_uj"), 262_143_328_850)
WHOLE = rapl.Counters((FIRST,), {})


class Powercap:
    """A powercap tree in a temporary folder whose counters run on the test's clock."""

    def __init__(self, root: Path, clock: VirtualClock) -> None:
        self.root, self.clock = root, clock
        self.zones: dict[str, tuple[float, int, int]] = {}

    def add(
        self,
        zone: str,
        name: str,
        watts: float = 0.0,
        start_uj: int = 10**9,
        range_uj: int = RANGE_UJ,
    ) -> None:
        folder = self.root / zone
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
        self.zones[zone] = (watts, start_uj, range_uj)
        self.origin_ns = self.clock.now_ns()
        self.update()

    def update(self) -> None:
        age_s = (self.clock.now_ns() - self.origin_ns) / NS_PER_S
        for zone, (watts, start_uj, range_uj) in self.zones.items():
            value = (start_uj + round(watts * age_s * 1e6)) % range_uj
            (self.root / zone / "energy_uj").write_text(f"{value}\n")

    def set(self, zone: str, value: int) -> None:
        (self.root / zone / "energy_uj").write_text(f"{value}\n")


class Bench(HostBench):
    """A host whose RAPL counters run on the bench's clock."""

    def __init__(self, root: Path, machine: Machine = MACHINE) -> None:
        super().__init__(machine)
        self.cap = Powercap(root, self.clock)

    def measured(self, **more: Any) -> HostDevices:
        """The host measured from the job's start on, by the counters that are here now."""
        return self.begin(rapl.find_counters(self.cap.root), **more)

    def wait(
        self, duration_s: float, meter: HostDevices | None = None, every_s: float = 10.0
    ) -> None:
        while duration_s > 1e-9:
            part_s = min(every_s, duration_s)
            self.clock.sleep(part_s)
            self.cap.update()
            if meter:
                meter.tick()
                meter.settle()
            duration_s -= part_s

    def job(self, duration_s: float = 60.0) -> None:
        """A job of that length [s], with readings every 10 s."""
        meter = self.measured()
        self.wait(duration_s, meter)
        self.stop(meter)

    def stop(self, meter: HostDevices) -> None:
        meter.stop(self.timeline.now_ns())


@pytest.fixture(autouse=True)
def _steady_load(monkeypatch):
    monkeypatch.setattr(model, "read_load", lambda: None)
    monkeypatch.setattr("os.getloadavg", lambda: (4.0, 4.0, 4.0))
    monkeypatch.setattr("os.cpu_count", lambda: 8)


MODEL_W = 8 * (0.63 + 0.5 * (3.35 - 0.63))
"""The model's power of the test machine at half load [W]."""


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def names(bench: Bench) -> list[str]:
    return [domain.name for domain in rapl.find_counters(bench.cap.root).domains]


def test_each_package_counts_once_and_nothing_inside_or_around_it(bench):
    bench.cap.add("intel-rapl:0", "package-0")
    bench.cap.add("intel-rapl:0:0", "core")
    bench.cap.add("intel-rapl:0:1", "uncore")
    bench.cap.add("intel-rapl:0:2", "dram")
    bench.cap.add("intel-rapl:1", "package-1")
    bench.cap.add("intel-rapl:1:0", "dram")
    bench.cap.add("intel-rapl:2", "psys")
    bench.cap.add("intel-rapl-mmio:0", "package-0")
    bench.cap.add("dtpm:0", "package-9")
    found = rapl.find_counters(bench.cap.root)
    assert {(d.name, d.component, d.path.parent.name) for d in found.domains} == {
        ("package-0", "cpu", "intel-rapl:0"),
        ("package-0/dram", "ram", "intel-rapl:0:2"),
        ("package-1", "cpu", "intel-rapl:1"),
        ("package-1/dram", "ram", "intel-rapl:1:0"),
    }
    assert found.usable


def test_dies_that_show_one_counter_twice_count_once(bench):
    bench.cap.add("intel-rapl:0", "package-0-die-0", start_uj=5_000_000_000)
    bench.cap.add("intel-rapl:1", "package-0-die-1", start_uj=5_000_200_000)
    bench.cap.add("intel-rapl:2", "package-1-die-0", start_uj=5_000_100_000)
    assert names(bench) == ["package-0-die-0", "package-1-die-0"]


def test_the_memory_of_a_die_that_counts_once_does_too(bench):
    for die in (0, 1):
        bench.cap.add(f"intel-rapl:{die}", f"package-0-die-{die}", start_uj=5_000_000_000)
        bench.cap.add(f"intel-rapl:{die}:0", "dram", start_uj=3_000_000_000)
    counters = rapl.find_counters(bench.cap.root)
    assert [domain.name for domain in counters.of("ram")] == ["package-0-die-0/dram"]


def test_memory_that_may_not_be_read_everywhere_is_the_models_and_said(bench):
    for package in (0, 1):
        bench.cap.add(f"intel-rapl:{package}", f"package-{package}", 100.0)
        bench.cap.add(f"intel-rapl:{package}:0", "dram", 10.0)
    del bench.cap.zones["intel-rapl:1:0"]
    (bench.cap.root / "intel-rapl:1:0" / "energy_uj").unlink()
    bench.job()
    assert bench.sources() == [("rapl", "measured"), ("gramwatt-ram-model", "estimated")]
    assert bench.total_j("ram") == pytest.approx(64 * 0.19 * 60, rel=1e-6)
    text = "energy_uj of the memory of 1 processor package cannot be read"
    assert [notice.partition(" (")[0] for notice in bench.notices] == [f"meter-unreadable: {text}"]
    root = bench.cap.root.parent / "root"
    (root / "sys/class").mkdir(parents=True)
    (root / "sys/class/powercap").symlink_to(bench.cap.root)
    target = Target(Place(root=root, environ={}, machine="x86_64"))
    finding = doctor.rapl(target, wait=bench.wait)
    assert (finding.state, text in finding.detail) == ("limited", True)
    assert "chmod a+r" in (finding.fix or "")


def test_the_documented_permission_has_the_memory_too(tmp_path):
    """systemd-tmpfiles knows braces, which pathlib does not."""
    line = re.search(r"^ +echo 'z /(\S+)\{(\S+),(\S+)\}(\S+) 0444", DOCS.read_text(), re.MULTILINE)
    assert line
    before, *choices, after = line.groups()
    zones = ["intel-rapl/intel-rapl:0", "intel-rapl/intel-rapl:0/intel-rapl:0:2"]
    for zone in zones:
        write(tmp_path, **{f"sys__devices__virtual__powercap__{zone}__energy_uj": "1\n"})
    paths = [path for choice in choices for path in tmp_path.glob(f"{before}{choice}{after}")]
    assert [str(path.parent).partition("powercap/")[2] for path in paths] == zones


def test_one_package_that_may_not_be_read_makes_the_rest_useless(bench):
    bench.cap.add("intel-rapl:0", "package-0")
    bench.cap.add("intel-rapl:1", "package-1")
    (bench.cap.root / "intel-rapl:1" / "energy_uj").unlink()
    found = rapl.find_counters(bench.cap.root)
    assert not found.usable
    assert [path.parent.name for path in found.denied_of("cpu")] == ["intel-rapl:1"]
    bench.measured()
    assert bench.sources()[0] == ("gramwatt-cpu-model", "estimated")


def test_it_measures_from_the_start_mark_on(bench):
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    bench.cap.add("intel-rapl:1", "package-1", 50.0)
    bench.cap.add("intel-rapl:0:0", "dram", 12.0)
    bench.cap.add("intel-rapl:1:0", "dram", 8.0)
    bench.wait(0.25)  # from the job's start to the first reading
    meter = bench.measured()
    bench.wait(63.0, meter)
    bench.stop(meter)
    assert bench.total_j("cpu", "measured") == pytest.approx(150 * 63, rel=1e-6)
    assert bench.total_j("cpu", "estimated") == pytest.approx(150 * 0.25, rel=1e-6)
    assert bench.total_j("ram", "measured") == pytest.approx(20 * 63, rel=1e-6)
    assert bench.span_s("cpu") == pytest.approx(63.25)
    assert bench.sources() == [("rapl", "measured"), ("rapl", "measured")]


@given(
    steps=st.lists(
        st.tuples(st.floats(0.01, 30.0), st.floats(0.5, 999.0)), min_size=1, max_size=40
    ),
    start=st.integers(0, AMD_RANGE_UJ - 1),
)
def test_no_pace_of_readings_below_half_a_minute_loses_or_adds_a_joule(steps, start):
    domain = rapl.Domain("package-0", "cpu", Path("/nowhere"), AMD_RANGE_UJ)
    value, total_uj, counted_j = start, 0, 0.0
    for span_s, watts in steps:
        grown = value + max(1, round(watts * span_s * 1e6))
        total_uj += grown - value
        found = rapl.energy_step(
            (domain,), {"package-0": value}, {"package-0": grown % AMD_RANGE_UJ}, span_s, None
        )
        value = grown % AMD_RANGE_UJ
        assert found is not None
        assert found.sure
        counted_j += found.energy_j
    assert counted_j == pytest.approx(total_uj / 1e6, rel=1e-9)


def test_the_meter_asks_for_a_reading_twice_a_minute(bench):
    bench.cap.add("intel-rapl:0", "package-0", 900.0, range_uj=AMD_RANGE_UJ)
    meter = bench.measured()
    due_ns = meter.due_ns()
    assert due_ns is not None
    assert (due_ns - bench.timeline.now_ns()) / NS_PER_S == pytest.approx(30.0)
    for _ in range(20):  # nobody settles; ticks alone keep count
        bench.wait(30.0)
        meter.tick()
    bench.stop(meter)
    assert bench.total_j("cpu", "measured") == pytest.approx(900 * 600, rel=1e-6)


def test_a_long_gap_takes_the_wraps_that_fit_and_calls_it_an_estimate(bench):
    bench.cap.add("intel-rapl:0", "package-0", 300.0, range_uj=AMD_RANGE_UJ)
    meter = bench.measured()
    bench.wait(60.0, meter)
    bench.wait(900.0)  # four wraps
    meter.settle()
    bench.wait(30.0, meter)
    bench.stop(meter)
    assert bench.total_j("cpu") == pytest.approx(300 * 990, rel=1e-6)
    assert bench.total_j("cpu", "estimated") == pytest.approx(300 * 900, rel=1e-6)


def test_a_counter_that_stands_still_is_the_models(bench):
    bench.cap.add("intel-rapl:0", "package-0", 0.0)
    bench.job()
    assert bench.total_j("cpu", "measured") == 0
    assert bench.total_j("cpu", "estimated") == pytest.approx(MODEL_W * 60, rel=1e-6)
    assert bench.notices[0].startswith("meter-gap: RAPL gave no cpu energy")


def test_a_counter_that_stays_silent_is_the_models_and_never_both(bench):
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    meter = bench.measured()
    bench.wait(20.0, meter)
    (bench.cap.root / "intel-rapl:0" / "energy_uj").unlink()
    for _ in range(7):
        bench.clock.sleep(10.0)
        meter.settle()
    bench.wait(40.0, meter)  # back again; its first value after the silence says nothing
    bench.stop(meter)
    assert bench.span_s("cpu") == pytest.approx(130.0)
    measured_j = bench.total_j("cpu", "measured")
    estimated_s = bench.total_j("cpu", "estimated") / MODEL_W
    assert measured_j / 100 + estimated_s == pytest.approx(130.0)
    assert estimated_s == pytest.approx(80.0)
    assert set(bench.notices) == {"meter-gap: RAPL gave no cpu energy for a while."}


def test_a_containers_share_is_attributed(tmp_path):
    bench = Bench(tmp_path, Machine("Test Xeon", 8.0, 2.0, 64.0 * 2**30, 16.0 * 2**30))
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    bench.cap.add("intel-rapl:0:0", "dram", 20.0)
    bench.job()
    assert bench.total_j("cpu", "attributed") == pytest.approx(100 * 60 / 4, rel=1e-6)
    assert bench.total_j("ram", "attributed") == pytest.approx(20 * 60 / 4, rel=1e-6)


def test_memory_without_a_counter_stays_with_the_model(bench):
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    bench.job()
    assert bench.total_j("ram", "estimated") == pytest.approx(64 * 0.19 * 60, rel=1e-6)
    assert bench.total_j("cpu", "estimated") == 0
    assert bench.sources() == [("rapl", "measured"), ("gramwatt-ram-model", "estimated")]


def test_codecarbon_is_not_started_where_it_reads_nothing_more(bench):
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    started: list[int] = []

    def spawn() -> Any:
        started.append(1)
        raise OSError("no process here")

    bench.wait(70.0, bench.measured(spawn=spawn))
    assert started == []
    bench.wait(70.0, bench.measured(spawn=spawn, GRAMWATT_HOST_SOURCE="codecarbon"))
    assert started == [1]


def test_a_dead_meter_is_resumed_from_its_counters(bench):
    bench.cap.add("intel-rapl:0", "package-0", 120.0)
    bench.cap.add("intel-rapl:0:0", "dram", 10.0)
    first = bench.measured()
    bench.wait(35.0, first)
    state = first.state()
    bench.wait(20.0)  # killed at 35 s, noticed at 55 s
    second = bench.measured(state=state, mark_ns=bench.timeline.now_ns())
    bench.wait(15.0, second)
    bench.stop(second)
    assert bench.total_j("cpu", "measured") == pytest.approx(120 * 70, rel=1e-6)
    assert bench.total_j("ram", "measured") == pytest.approx(10 * 70, rel=1e-6)
    assert bench.span_s("cpu") == pytest.approx(70)


def test_a_job_gets_it_where_it_can_be_read_and_its_devices_say_so(tmp_path):
    bench = Bench(tmp_path, Machine("Test Xeon", 8.0, 2.0, 64.0 * 2**30, 32.0 * 2**30))
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    bench.measured()
    cpu, ram = bench.devices
    assert (cpu["meter"], cpu["kind"], cpu["share"]) == ("rapl", "attributed", 0.25)
    assert (cpu["units"], cpu["units_total"]) == (2.0, 8.0)
    assert (ram["meter"], ram["kind"], ram["share"]) == ("gramwatt-ram-model", "estimated", 0.5)
    assert ram["memory_b"] == 32 * 2**30
    assert not any("RAPL" in text or "codecarbon" in text for text in bench.notices)


def never() -> Any:
    raise AssertionError("started")


def test_graphics_inside_the_processor_that_the_model_does_not_see_are_said(tmp_path):
    """120 W of a Strix Halo's graphics beside a processor at rest (legacy-rocm-build #6035)."""
    bench = Bench(tmp_path, msgspec.structs.replace(MACHINE, graphics=True))
    bench.begin(WHOLE, GRAMWATT_HOST_SOURCE="model")
    (notice,) = bench.notices
    assert notice.endswith("It does not see work on the graphics inside the processor.")


@pytest.mark.parametrize("source", ["model", "codecarbon"])
def test_the_counters_can_be_left_alone(bench, source):
    bench.begin(WHOLE, GRAMWATT_HOST_SOURCE=source)
    assert bench.sources()[0] == ("gramwatt-cpu-model", "estimated")
    assert bench.notices == [
        "meter-source-absent: no counter of processor and memory is read here; a model estimates "
        "their energy."
    ]
