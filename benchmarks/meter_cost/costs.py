"""What one tool costs the process it measures; run by each tool's own interpreter.

    python costs.py TOOL GPUS HZ SECONDS

Imports the tool, starts it, leaves it alone, watches it for SECONDS (0: not at all), marks, stops
it, and prints one JSON line: `import_s`, `start_s`, `mark_s`, `stop_s`, `peak_mb` (the rise of its
own peak over a bare interpreter), and of the watch `cpu` (share of a core), `wakeups_per_s` and
`helpers_mb` (resident, of the tool's other processes). Watched are this process, which only sleeps,
and all with the same HOME. Linux only: it reads /proc.
"""

from __future__ import annotations

import os
import sys
import time

# Nothing else here: what this file had imported, the tool would no longer have to.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SETTLE_S = 35.0
"""The slowest of them are at work after some 7 s; for the first 30 s ours looks every second for
other ranks of its job, then every 10 s."""
MARKS = 300
READY_S = 20.0


class Clock:
    """Times a block."""

    def __init__(self, found: dict[str, float], name: str) -> None:
        self.found, self.name = found, name

    def __enter__(self) -> None:
        """Begin."""
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        """Keep the time [s]."""
        self.found[self.name] = time.perf_counter() - self.began


class Asked:
    """What is measured: so many GPUs, so many readings a second, watched so long [s].

    `bare_mb` is this process's peak memory [MB] before.
    """

    def __init__(self, gpus: int, hz: float, watch_s: float, bare_mb: float) -> None:
        self.gpus, self.hz, self.watch_s, self.bare_mb = gpus, hz, watch_s, bare_mb
        self.found: dict[str, float] = {}

    def clock(self, name: str) -> Clock:
        """Time a block under this name."""
        return Clock(self.found, name)

    def marks(self, mark: Callable[[int], object]) -> None:
        """The median of many marks [s]."""
        times = []
        for number in range(MARKS):
            began = time.perf_counter()
            mark(number)
            times.append(time.perf_counter() - began)
        self.found["mark_s"] = sorted(times)[MARKS // 2]

    def watch(self) -> None:
        """Sleep, and see what that costs."""
        if not self.watch_s:
            time.sleep(1.5)
            return
        time.sleep(SETTLE_S)
        before, began = used(), time.monotonic()
        time.sleep(self.watch_s)
        after, span_s = used(), time.monotonic() - began
        self.found["cpu"] = (after[0] - before[0]) / span_s
        self.found["wakeups_per_s"] = (after[1] - before[1]) / span_s
        self.found["helpers_mb"] = after[2]

    def peak(self) -> None:
        """The rise of this process's own peak memory [MB]."""
        self.found["peak_mb"] = status_mb("self", "VmHWM") - self.bare_mb


def used() -> tuple[float, float, float]:
    """Return what this process and the others of this run have used.

    Processor time [s], voluntary context switches, and memory of the others [MB]. This one's
    threads that have ended are counted, those of the others are not.
    """
    import resource

    cpu_s = time.process_time()
    wakeups: float = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    helpers_mb = 0.0
    for pid in others():
        try:
            helpers_mb += status_mb(pid, "VmRSS")
            for thread in os.listdir(f"/proc/{pid}/task"):
                place = f"/proc/{pid}/task/{thread}"
                cpu_s += int(text(f"{place}/schedstat").split()[0]) / 1e9
                told = text(f"{place}/status").partition("\nvoluntary_ctxt_switches:")[2]
                wakeups += int(told.split()[0])
        except OSError:
            continue  # it has ended meanwhile
    return cpu_s, wakeups, helpers_mb


def others() -> list[str]:
    """The other processes with our HOME, which no other run has; some have left their parents."""
    mine, found = f"HOME={os.environ['HOME']}", []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mine in text(f"/proc/{name}/environ").split("\0"):
                found.append(name)
        except OSError:
            continue
    return [name for name in found if name != str(os.getpid())]


def status_mb(pid: str, name: str) -> float:
    """A memory figure of a process [MB]; 0 for one that has ended and was not yet reaped."""
    told = text(f"/proc/{pid}/status")
    return int(told.partition(f"{name}:")[2].split()[0]) * 1024 / 1e6 if name in told else 0.0


def text(path: str) -> str:
    """A whole file."""
    with open(path) as stream:
        return stream.read()


def gramwatt(asked: Asked) -> None:
    """Our own track; the stand-in's lack of a counter, not a setting, makes it read at 10 Hz."""
    with asked.clock("import_s"):
        from gramwatt import track
    with asked.clock("ready_s"):
        with asked.clock("start_s"):
            tracker = track(project="cost", unit="image")
            job = tracker.start()
        deadline = time.monotonic() + READY_S
        while not first_reading() and time.monotonic() < deadline:
            time.sleep(0.002)
    asked.watch()
    asked.marks(lambda _: job.count(1))
    with asked.clock("stop_s"):
        tracker.stop()


def first_reading() -> bool:
    """Return whether our meter has journaled its first reading."""
    return any(
        name.endswith(".open")
        for _, _, names in os.walk(os.environ["GRAMWATT_HOME"])
        for name in names
    )


def codecarbon(asked: Asked) -> None:
    """The offline tracker."""
    with asked.clock("import_s"):
        from codecarbon import OfflineEmissionsTracker
    with asked.clock("start_s"):
        tracker = OfflineEmissionsTracker(
            country_iso_code="FRA",
            measure_power_secs=1 / asked.hz,
            save_to_file=False,
            log_level="critical",
        )
        tracker.start()
    asked.watch()
    with asked.clock("stop_s"):
        tracker.stop()


def zeus(asked: Asked) -> None:
    """ZeusMonitor, which reads only when it is asked; a mark is a window."""
    with asked.clock("import_s"):
        from zeus.monitor import ZeusMonitor
    with asked.clock("start_s"):
        monitor = ZeusMonitor(gpu_indices=list(range(asked.gpus)))
        monitor.begin_window("job", sync_execution=False)
    asked.watch()

    def window(number: int) -> None:
        monitor.begin_window(str(number), sync_execution=False)
        monitor.end_window(str(number), sync_execution=False)

    asked.marks(window)
    with asked.clock("stop_s"):
        monitor.end_window("job", sync_execution=False)


def zeus_power(asked: Asked) -> None:
    """Zeus's PowerMonitor, started when its processes have power to tell."""
    with asked.clock("import_s"):
        from zeus.monitor import PowerMonitor
    with asked.clock("start_s"):
        gpus = list(range(asked.gpus))
        monitor = PowerMonitor(gpu_indices=gpus, update_period=1 / asked.hz)
        deadline = time.monotonic() + READY_S
        while not monitor.get_power() and time.monotonic() < deadline:
            time.sleep(0.01)
    asked.watch()
    with asked.clock("stop_s"):
        monitor.get_energy(time.time() - 1, time.time())
        monitor.stop()


def carbontracker(asked: Asked) -> None:
    """The GPU component only; a mark is an epoch's end and the next one's start."""
    with asked.clock("import_s"):
        from carbontracker.tracker import CarbonTracker
    with asked.clock("start_s"):
        tracker = CarbonTracker(
            epochs=MARKS + 2,
            monitor_epochs=MARKS + 2,
            epochs_before_pred=0,
            update_interval=1 / asked.hz,
            components="gpu",
            verbose=0,
        )
        tracker.epoch_start()
    asked.watch()

    def epoch(_: int) -> None:
        tracker.epoch_end()
        tracker.epoch_start()

    asked.marks(epoch)
    with asked.clock("stop_s"):
        tracker.epoch_end()
        tracker.stop()


def eco2ai(asked: Asked) -> None:
    """The tracker at the rate asked for; as it comes it reads every 10 s."""
    with asked.clock("import_s"):
        from eco2ai import Tracker
    with asked.clock("start_s"):
        tracker = Tracker(
            project_name="p",
            experiment_description="e",
            alpha_2_code="FR",
            measure_period=1 / asked.hz,
        )
        tracker.start()
    asked.watch()
    with asked.clock("stop_s"):
        tracker.stop()


def perun(asked: Asked) -> None:
    """`perun monitor` around a script; its start begins before the interpreter's."""
    import json
    import subprocess

    code = "import time; t = time.perf_counter(); import perun; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    asked.found["import_s"] = float(done.stdout)
    told = [asked.gpus, asked.hz, asked.watch_s, asked.bare_mb]
    with open("job.py", "w") as stream:
        stream.write(f"import sys; sys.argv = ['', {json.dumps(told)!r}]\n")
        stream.write(f"exec(open({os.path.abspath(__file__)!r}).read())\n")
    line = [os.path.join(os.path.dirname(sys.executable), "perun"), "-l", "ERROR", "monitor"]
    line += ["-f", "json", "--sampling_period", str(1 / asked.hz), "--data-out", "out", "job.py"]
    began = time.monotonic()
    done = subprocess.run(line, check=True, capture_output=True)
    ended = time.monotonic()
    inner = json.loads(next(ln for ln in done.stdout.splitlines() if ln.startswith(b'{"')))
    asked.found["start_s"], asked.found["stop_s"] = (
        inner.pop("began") - began,
        ended - inner.pop("ended"),
    )
    asked.found.update(inner)


def inside_perun(told: str) -> None:
    """The script that perun runs."""
    import json

    began = time.monotonic()
    asked = Asked(*json.loads(told))
    asked.watch()
    asked.peak()
    print(json.dumps({**asked.found, "began": began, "ended": time.monotonic()}), flush=True)


TOOLS: dict[str, Callable[[Asked], None]] = {
    tool.__name__: tool
    for tool in (gramwatt, codecarbon, zeus, zeus_power, carbontracker, eco2ai, perun)
}


def main(arguments: list[str]) -> dict[str, Any]:
    """One tool; what it prints goes to standard error."""
    gpus, hz, watch_s = int(arguments[1]), float(arguments[2]), float(arguments[3])
    asked = Asked(gpus, hz, watch_s, status_mb("self", "VmHWM"))
    answers, sys.stdout = sys.stdout, sys.stderr
    TOOLS[arguments[0]](asked)
    sys.stdout = answers
    if "peak_mb" not in asked.found:
        asked.peak()
    return asked.found


if __name__ == "__main__":
    if len(sys.argv) == 2:
        inside_perun(sys.argv[1])
    else:
        figures = main(sys.argv[1:])
        import json

        print(json.dumps(figures), flush=True)
