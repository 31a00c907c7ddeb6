"""What was wrong on machines of users of other tools: suspends, processors, virtual machines, RAPL
files and readings that are not what they seem, and homes without locks.
"""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.board import Place
from gramwatt.collectors.doctor import host as doctor
from gramwatt.collectors.doctor.finding import Target
from gramwatt.collectors.host import model
from gramwatt.collectors.host.machine import Machine, is_virtual, this_machine
from gramwatt.collectors.host.model import Load, power_of
from gramwatt.collectors.host.share import JobProcesses, Process, Strays
from gramwatt.collectors.settings import files, proc
from gramwatt.sci.figures.host_model import RANGES
from tests.collectors.host.bench import HostBench
from tests.collectors.host.test_rapl import Bench
from tests.collectors.vendor_fakes import write

GIB = 2.0**30
EPYC = "AMD EPYC 7763 64-Core Processor"
MODEL_W = 8 * (0.63 + 0.5 * (3.35 - 0.63))
"""The model's power of the bench's processor at half load [W]."""


@pytest.fixture(autouse=True)
def _half_load(monkeypatch):
    monkeypatch.setattr(model, "mean_load", lambda *_: 0.5)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "powercap")


# Suspends


def test_a_machine_that_sleeps_draws_nothing_by_the_model():
    """30 s of work before and after eight hours of sleep."""
    bench = HostBench()
    host = bench.begin()
    for between in (lambda: bench.clock.suspend(8 * 3600), lambda: None):
        bench.clock.sleep(30)
        between()
        host.settle()
    host.stop(bench.timeline.now_ns())
    assert bench.total_j("cpu") == pytest.approx(MODEL_W * 60, rel=1e-6)
    assert bench.total_j("ram") == pytest.approx(64 * 0.19 * 60, rel=1e-6)
    assert bench.span_s("cpu") == pytest.approx(8 * 3600 + 60)
    assert [text for text in bench.notices if text.startswith("machine-suspended: ")]


def test_a_counter_that_ran_on_before_and_after_a_sleep_is_believed(bench):
    bench.cap.add("intel-rapl:0", "package-0", 100.0, range_uj=65_532_610_987)
    host = bench.measured()
    bench.wait(30, host)
    bench.clock.suspend(8 * 3600)
    bench.cap.origin_ns += 8 * 3600 * 10**9  # it stood still meanwhile
    host.settle()
    bench.wait(30, host)
    bench.stop(host)
    assert bench.total_j("cpu", "measured") == pytest.approx(100 * 60, rel=1e-6)
    assert bench.total_j("cpu", "estimated") == 0


def test_a_counter_that_a_sleep_sets_back_is_no_wrap(bench):
    """Set back from 52 to 0 kJ, which as a wrap at 65.5 kJ would be 13 kJ in half a minute."""
    bench.cap.add("intel-rapl:0", "package-0", 10.0, 52_000_000_000, 65_532_610_987)
    host = bench.measured()
    bench.wait(30, host)
    bench.clock.sleep(15)
    bench.clock.suspend(3600)
    bench.cap.add("intel-rapl:0", "package-0", 10.0, 0, 65_532_610_987)
    bench.wait(15)
    host.tick()
    bench.wait(30, host)
    bench.stop(host)
    assert bench.total_j("cpu", "measured") == pytest.approx(10 * 60, rel=1e-6)
    assert bench.total_j("cpu", "estimated") == pytest.approx(MODEL_W * 30, rel=1e-6)


# Processors


def machine(name: str, threads: float, sockets: int | None = 1, **more: Any) -> Machine:
    return Machine(name, threads, threads, 64 * GIB, 64 * GIB, sockets=sockets, **more)


@pytest.mark.parametrize(
    ("name", "threads", "sockets", "rated_w"),
    [
        ("AMD EPYC 7763 64-Core Processor", 128.0, 1, 280.0),
        ("AMD EPYC 7763 64-Core Processor", 128.0, 2, 560.0),  # one thread a core
        ("Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", 96.0, 2, 480.0),
        ("Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", 8.0, None, 40.0),  # of a virtual machine
    ],
)
def test_no_range_goes_above_a_rated_power_that_the_catalog_has(name, threads, sockets, rated_w):
    power = power_of(machine(name, threads, sockets))
    assert power is not None
    highest_w = [RANGES[power.meter].high * power.at(load / 10) for load in range(11)]
    assert max(highest_w) == pytest.approx(rated_w)
    assert highest_w == sorted(highest_w)


@pytest.mark.parametrize(
    ("name", "threads", "base_w", "most_w"),
    [
        ("12th Gen Intel(R) Core(TM) i7-12700H", 20.0, 45.0, 115.0),  # codecarbon #824
        ("Intel(R) Core(TM) i9-14900K", 32.0, 125.0, 253.0),
        ("AMD Ryzen 9 7950X 16-Core Processor", 32.0, 170.0, 230.0),
    ],
)
def test_a_desks_processor_may_draw_more_than_its_base_power(name, threads, base_w, most_w):
    power = power_of(machine(name, threads))
    assert power is not None
    low, high, _ = RANGES[power.meter]
    assert low * power.at(1.0) < base_w < most_w < high * power.at(1.0)


@pytest.mark.parametrize(
    ("name", "threads", "sockets", "rated_w", "unlike"),
    [
        ("AMD EPYC 9996 192-Core Processor", 384.0, 1, 500.0, True),
        ("AMD EPYC 9996 192-Core Processor", 8.0, None, 500.0 / 48, True),
        ("Intel(R) Xeon(R) 6996P", 256.0, 1, 500.0, True),
        ("13th Gen Intel(R) Core(TM) i7-1365U", 12.0, 1, 15.0, True),
        ("aarch64", 192.0, 1, 400.0, True),
        ("Intel(R) Xeon(R) Platinum 8594+", 256.0, 2, 700.0, False),
    ],
)
def test_the_range_of_a_processor_that_no_table_has_can_hold_its_rated_power(
    name, threads, sockets, rated_w, unlike
):
    power = power_of(machine(name, threads, sockets))
    assert power is not None
    assert power.meter.endswith("-unlike") == unlike
    low, high, source = RANGES[power.meter]
    assert low * power.at(1.0) <= rated_w <= high * power.at(1.0)
    assert ("unlike" in source) == unlike
    if sockets:
        assert high * power.at(1.0) <= 1.1 * 500 * sockets


def test_a_processor_unlike_the_evidence_is_said():
    bench = HostBench(machine("Snapdragon", 12.0))
    bench.begin()
    assert "unlike those of its evidence" in bench.notices[0]
    assert bench.sources()[0][0] == "gramwatt-cpu-model-unlike"


# Virtual machines


ARM = {"proc__cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"}
VENDOR, PRODUCT = "sys__class__dmi__id__sys_vendor", "sys__class__dmi__id__product_name"


@pytest.mark.parametrize(
    ("files", "virtual"),
    [
        ({VENDOR: "Amazon EC2\n", PRODUCT: "c7g.xlarge\n"}, True),
        ({VENDOR: "Amazon EC2\n", PRODUCT: "c7g.metal\n"}, False),
        ({VENDOR: "Google\n", PRODUCT: "Google Compute Engine\n"}, True),
        ({VENDOR: "Microsoft Corporation\n", PRODUCT: "Virtual Machine\n"}, True),
        ({VENDOR: "Microsoft Corporation\n", PRODUCT: "Surface Pro\n"}, False),
        ({VENDOR: "QEMU\n", PRODUCT: "KVM Virtual Machine\n"}, True),
        ({"proc__sys__kernel__osrelease": "6.6.87.2-microsoft-standard-WSL2\n"}, True),
        ({VENDOR: "Supermicro\n", PRODUCT: "ARS-211M-NR\n"}, False),
        ({"proc__device-tree__compatible": "linux,dummy-virt\0"}, True),
        ({"proc__device-tree__hypervisor__compatible": "linux,kvm\0"}, True),
        ({"proc__device-tree__compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0"}, False),
        ({}, False),
    ],
)
def test_a_virtual_machine_is_known_without_a_flag_of_x86(tmp_path, files, virtual):
    write(tmp_path, **ARM, **files)
    assert is_virtual(tmp_path) == virtual
    assert this_machine(tmp_path).facts("cpu")["virtual"] == virtual
    target = Target(Place(root=tmp_path, environ={}, machine="aarch64"))
    assert ("a virtual machine" in doctor.system(target).detail) == virtual
    finding = doctor.rapl(target)
    assert "modprobe" not in f"{finding.detail} {finding.fix}"


# Containers


def test_a_container_of_lxc_has_its_part_of_the_host(tmp_path):
    """lxcfs shows five of 256 threads as if they were all: of two sockets, one thread each."""
    cores = [f"processor\t: {n}\nmodel name\t: {EPYC}\nphysical id\t: 0\n\n" for n in range(5)]
    files = {
        "proc__cpuinfo": "".join(cores),
        "proc__meminfo": "MemTotal: 1048576 kB\n",
        "proc__self__mounts": "lxcfs /proc/cpuinfo fuse.lxcfs rw,nosuid,nodev 0 0\n",
        "sys__devices__system__cpu__present": "0-255\n",
        "sys__fs__cgroup__cpuset.cpus.effective": "7,10-13\n",
        "sys__fs__cgroup__cpu.stat": "usage_usec 1000\n",
    }
    write(tmp_path, **files)
    machine = this_machine(tmp_path)
    assert (machine.threads_total, machine.threads) == (256, 5)
    assert machine.usage == tmp_path / "sys/fs/cgroup"
    assert machine.memory_b == GIB
    assert machine.memory_share < 1
    power = power_of(machine)
    assert power is not None
    assert RANGES[power.meter].high * power.at(1.0) * machine.cpu_share == pytest.approx(
        2 * 280 * 5 / 256
    )


@pytest.mark.parametrize("threads", [8.0, 2.0])
@pytest.mark.parametrize("shown", [0.0, None])
def test_a_sandbox_whose_kernel_counts_no_load_has_that_of_the_job(shown, threads, monkeypatch):
    """gVisor's zeros, or no /proc/stat and loadavg as under systemd's ProcSubset=pid and in Termux;
    and no cgroup that counts; two threads are busy.
    """
    monkeypatch.setattr(model, "mean_load", lambda *_: shown)
    monkeypatch.setattr(model, "read_load", lambda: None if shown is None else Load(0.0, 0.0))
    bench = HostBench(Machine("Test Xeon", 8.0, threads, 64 * GIB, 64 * GIB))
    start_ns = bench.clock.mono_ns()

    def processes(_: Any) -> dict[int, Process]:
        return {100: Process(1, 0.0, 4 + 2 * (bench.clock.mono_ns() - start_ns) / 1e9)}

    host = bench.begin(own=JobProcesses("job", {100}, {100: 4.0}), processes=processes)
    for _ in range(10):
        bench.clock.sleep(10.0)
        host.settle()
    host.stop(bench.timeline.now_ns())
    power = power_of(bench.machine)
    assert power is not None
    part = threads / 8
    assert bench.total_j("cpu") == pytest.approx(100 * part * power.at(2 / threads), rel=0.01)


# RAPL


@pytest.mark.parametrize("name", ["energy_uj", "max_energy_range_uj"])
def test_the_file_that_cannot_be_read_is_named_with_what_mends_it(bench, name):
    bench.cap.add("intel-rapl:0", "package-0", 100.0)
    (bench.cap.root / "intel-rapl:0" / name).unlink()
    bench.measured()
    (text,) = [text for text in bench.notices if "meter-unreadable" in text]
    assert f" {name} of 1 processor package cannot be read" in text
    root = bench.cap.root.parent / "root"
    (root / "sys/class").mkdir(parents=True)
    bench.cap.root.rename(root / "sys/class/powercap")
    finding = doctor.rapl(Target(Place(root=root, environ={}, machine="x86_64")))
    assert f"{name} of 1 processor package cannot be read" in finding.detail
    assert f"chmod a+r {root}/sys/class/powercap/*/{name}\n" in (finding.fix or "")


def at(bench: Bench, value_j: float) -> None:
    bench.clock.sleep(10.0)
    bench.cap.set("intel-rapl:0", 10**9 + round(value_j * 1e6))


@pytest.mark.parametrize("high", [1, 3])
def test_a_reading_too_high_is_disproved_by_the_way_back(bench, high):
    """6 W, and one value that is 706 J too high, which may be the job's first."""
    bench.cap.add("intel-rapl:0", "package-0", 6.0)
    host = bench.measured()
    for number in range(1, 6):
        at(bench, 60 * number + 706 * (number == high))
        host.settle()
    bench.stop(host)
    assert bench.total_j("cpu", "measured") == pytest.approx(300)
    assert bench.span_s("cpu") == pytest.approx(50)
    assert max(i.power_max_w for name, i in bench.recorded if name == "cpu") == pytest.approx(6)
    assert bench.notices[-1].startswith("meter-counter-reset: ")


@pytest.mark.parametrize("end", ["settle", "stop", "mark"])
def test_a_load_that_rises_is_measured_whenever_it_is_read_next(bench, end):
    bench.cap.add("intel-rapl:0", "package-0", 6.0)
    host = bench.measured()
    for value_j in (60, 120, 886):
        at(bench, value_j)
        host.settle()
    state = host.state()
    at(bench, 1652)
    if end == "settle":
        host = bench.measured(state=state, mark_ns=bench.timeline.now_ns())
        host.settle()
    if end == "mark":
        host.add_boundary(bench.timeline.now_ns())
        assert bench.total_j("cpu", "measured") == pytest.approx(1652)
    bench.stop(host)
    assert bench.total_j("cpu", "measured") == pytest.approx(1652)
    assert bench.span_s("cpu") == pytest.approx(40)


def test_what_the_model_gave_is_not_called_rapl(bench):
    bench.cap.add("intel-rapl:0", "package-0", 0.0)  # stands still, as in some virtual machines
    bench.job(20)
    assert bench.sources()[0][0] == "rapl+gramwatt-cpu-model"


# Homes without locks


@pytest.fixture
def refuse(monkeypatch, tmp_path):
    """Makes files below a folder such that they cannot be locked."""
    monkeypatch.setattr(files, "temporary_folder", lambda: tmp_path / "temporary")
    locked = fcntl.flock

    def refuse(below: Path) -> None:
        def flock(file: Any, how: int) -> None:
            descriptor = file if isinstance(file, int) else file.fileno()
            if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(str(below)):
                raise OSError(errno.ENOSYS, "Function not implemented")
            locked(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", flock)

    return refuse


def booked_j(home: Path) -> tuple[float, list[str]]:
    """Memory's energy of two jobs of 100 s at once, and their notices."""
    benches = {name: HostBench() for name in "ab"}
    clock = benches["b"].clock = benches["a"].clock
    benches["b"].timeline = benches["a"].timeline
    hosts = [
        bench.begin(home=home, own=JobProcesses(name, set(), {})) for name, bench in benches.items()
    ]
    hosts[0].settle()
    for _ in range(10):
        clock.sleep(10.0)
        for host in hosts:
            host.settle()
    for bench, host in zip(benches.values(), hosts, strict=True):
        host.stop(bench.timeline.now_ns())
    notices = [text for bench in benches.values() for text in bench.notices]
    return sum(bench.total_j("ram") for bench in benches.values()), notices


def test_a_home_without_locks_bills_two_jobs_once(tmp_path, refuse):
    refuse(tmp_path / "home")
    energy_j, notices = booked_j(tmp_path / "home")
    assert energy_j == pytest.approx(64 * 0.19 * 100)
    assert len({text for text in notices if text.startswith("host-shared: ")}) == 1
    finding = doctor.locks(tmp_path / "home")
    assert (finding.state, "temporary" in finding.detail) == ("ok", True)


def test_where_nothing_can_be_locked_doctor_says_so(tmp_path, refuse):
    refuse(tmp_path)
    finding = doctor.locks(tmp_path / "home")
    assert finding.state == "limited"
    assert "Function not implemented" in finding.detail
    assert finding.fix == "set GRAMWATT_HOME to a local disk"


# Processes


@pytest.mark.parametrize(("reaper", "has_id"), [("systemd", True), ("bash", False)])
def test_a_process_that_left_the_job_is_its_own_under_whatever_inherits_orphans(
    reaper, has_id, monkeypatch
):
    """Both are not children of process 1; those of a shell may be of another job of that id."""
    environs = {"/proc/300/environ": "GRAMWATT_JOB_ID=job\0", "/proc/200/comm": f"{reaper}\n"}
    monkeypatch.setattr(proc, "system_text", lambda path, *_: environs.get(path, ""))
    table = {200: Process(1, 0.0, 1.0), 300: Process(200, 20.0, 5.0)}
    assert Strays("job").find(table, 10.0) == [300] * has_id


# Loads and sizes


def test_what_a_hypervisor_steals_is_no_load(tmp_path):
    write(tmp_path, stat="cpu  10 0 10 50 10 0 0 20 5 0\ncpu0 1 2 3\n")
    assert model.read_load(tmp_path) == (20, 100)


@pytest.mark.parametrize("there", ["0-63\n", "0-31,64-95\n"])
def test_the_size_of_a_machine_is_not_what_python_may_use(there, tmp_path, monkeypatch):
    """musl counts the affinity, and PYTHON_CPU_COUNT is the user's: four of 64 threads."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    write(
        tmp_path,
        sys__devices__system__cpu__online=there,
        sys__devices__system__cpu__present="0-127\n",
        **{"sys__fs__cgroup__cpuset.cpus.effective": "0-3\n"},
    )
    machine = this_machine(tmp_path)
    assert (machine.threads_total, machine.threads) == (64, 4)
