"""The meter process of a job and node: `python -m gramwatt.collectors.meter.main FOLDER`.

Its input is the lock of the job's folder in memory, which it holds until it ends; so there is never
a second one. One loop waits for a process that wakes it, for the end of one that decides how the
job ends, and for the next reading, whichever comes first. No threads but those of the setting
`metrics` and of servers whose counters are read; nothing written to the job's output.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import sys
from typing import Any

from msgspec.structs import replace

from gramwatt.collectors.host.codecarbon import starter
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.meter.job_meter import JobMeter, Log
from gramwatt.collectors.settings.catalogs import consistent
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.config import Config, for_own_process, resolve
from gramwatt.collectors.settings.installation import has_service
from gramwatt.collectors.spool.counts import Processes
from gramwatt.collectors.spool.score import Ended, lines, preload_engine, report_location
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.collectors.track.client import COMMAND
from gramwatt.collectors.track.counts import PRINTED, JobFolder, remove_left_over

FIRST_SYNC_NS, SYNC_EVERY_NS = NS_PER_S // 3, 30 * NS_PER_S
"""When a server is sent what is journaled of a running job: soon after its start, so that it is in
sight there, and then whenever there is more."""
REST_NS = NS_PER_S
"""After a tick that has raised: what it left undone stays due."""
IDLE_S = 0.3
"""A pause before the next reading that is long enough to load the engine or a zone [s]."""
WAKES_B = 4096
HANGS_S = 60
"""A tick that takes longer hangs in a driver [s], as a disk of the network seldom does: the kernel
then ends the meter, and the next one asks the driver in a child process (devices/library.py)."""


class Loop:
    """Waits for the next event and has the meter act on it; `wake` is the folder's FIFO."""

    def __init__(self, meter: JobMeter, wake: int) -> None:
        self._meter = meter
        self._wake = wake
        self._selector = selectors.DefaultSelector()
        self._selector.register(wake, selectors.EVENT_READ)
        self._watched: dict[int, int] = {}
        """Descriptor of each process whose end is waited for, by its id."""
        self._running: list[int] = []
        """Those of the last look, which are watched."""
        self._sync_at_ns = meter.timeline.now_ns() + FIRST_SYNC_NS
        self._sent_seq = 0
        self._syncs: list[Any] = []
        self._rests_until_ns = 0
        self._wants_metrics = meter.config.metrics is not None
        # `run` does these itself before and after its command.
        self._idle_tasks = [] if meter.role == COMMAND else [meter.check_place, preload_engine]
        """What is done once, in the first pauses that are long enough."""

    def run(self) -> None:
        """Serve the meter until the job is closed."""
        meter = self._meter
        while not meter.closed:
            self._watch_processes()
            due_ns = max(meter.due_ns(), self._rests_until_ns)
            if meter.config.server:
                due_ns = min(due_ns, self._sync_at_ns)
            wait_s = (due_ns - meter.timeline.now_ns()) / NS_PER_S
            if self._idle_tasks and wait_s > IDLE_S:
                try:
                    self._idle_tasks.pop(0)()
                except Exception as error:
                    meter.log.write(f"left to the job's end: {error!r}")
                continue
            for key, _ in self._selector.select(max(0.0, wait_s)):
                meter.wake()
                if key.fd == self._wake:
                    with contextlib.suppress(OSError):
                        os.read(self._wake, WAKES_B)
                else:
                    self._selector.unregister(key.fd)
                    os.close(self._watched.pop(key.data))
            self._act()

    def sync(self) -> None:
        """Start a process that sends or scores what is spooled, and do not wait for it."""
        import subprocess

        server = self._meter.config.server
        what = ["--quiet", "--job", self._meter.job_id] if server else ["--behind"]
        null = subprocess.DEVNULL
        with contextlib.suppress(OSError):
            process = subprocess.Popen(  # gramwatt's interpreter and module
                [sys.executable, "-P", "-m", "gramwatt", "sync", *what],
                stdin=null,
                stdout=null,
                stderr=null,
                env={**os.environ, **for_own_process(self._meter.config)},
                start_new_session=True,
            )
            self._syncs.append(process)

    def _watch_processes(self) -> None:
        """Be woken by the end of each process that decides; a look has the others.

        Not while no look follows: one that has ended would wake the meter again and again.
        """
        running = self._meter.running
        if running is self._running or self._meter.timeline.now_ns() < self._rests_until_ns:
            return
        self._running = running
        for pid in running:
            if pid not in self._watched:
                with contextlib.suppress(AttributeError, OSError):
                    self._watched[pid] = os.pidfd_open(pid)
                    self._selector.register(self._watched[pid], selectors.EVENT_READ, pid)
        self._meter.watched = bool(running) and all(pid in self._watched for pid in running)

    def _act(self) -> None:
        meter = self._meter
        if meter.timeline.now_ns() >= self._rests_until_ns:
            # Not a thread that looks on: a call that does not return may keep the interpreter.
            signal.alarm(HANGS_S)
            try:
                meter.tick()
            except Exception as error:
                self._rests_until_ns = meter.timeline.now_ns() + REST_NS
                meter.log.write(f"a tick failed: {error!r}")
            finally:
                signal.alarm(0)
        self._export()
        if meter.config.server and meter.timeline.now_ns() >= self._sync_at_ns:
            self._sync_running()

    def _sync_running(self) -> None:
        """Send what is new of the running job, unless the sync before has not ended."""
        self._sync_at_ns = self._meter.timeline.now_ns() + SYNC_EVERY_NS
        self._syncs = [process for process in self._syncs if process.poll() is None]
        if not self._syncs and self._meter.journal.seq > self._sent_seq:
            self._sent_seq = self._meter.journal.seq
            self.sync()

    def _export(self) -> None:
        """Start what the setting `metrics` asks for."""
        meter = self._meter
        if not self._wants_metrics:
            return
        self._wants_metrics = False
        try:
            from gramwatt.collectors.meter.metrics import serve_figures

            serve_figures(SpoolFolder(meter.journal.folder), meter.config, meter.notify)
        except Exception as error:
            meter.notify("integration-failed", f"no figures are served: {error!r}")


def main() -> int:
    """Run the meter of the job whose folder in memory is the argument, until the job is closed."""
    _close_inherited()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):  # two files are open for each process
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    folder = JobFolder(sys.argv[1])
    wake = folder.listen()
    remove_left_over()
    dependencies = Dependencies()
    processes = Processes(folder, dependencies.process_start_ns)
    processes.enter()
    if not processes.deciding():
        return 2
    config = _config(processes.deciding()[0].first.get("args") or {})
    dependencies.codecarbon = starter(dependencies.environ)
    meter = JobMeter(dependencies, config, processes)
    save_when_terminated(meter, folder)
    meter.start()
    loop = Loop(meter, wake)
    loop.run()
    ended = Ended(meter.job_id, meter.config, meter.home, meter.unwritten)
    meter.release()  # before it is said: who reads that finds a folder that nobody writes to
    meter.say_closed(home=str(meter.home), see=report_location(ended))
    if meter.wants_lines:
        meter.say_closed(lines=_end_lines(ended, meter.log))
    has_reader = any(map(meter.processes.lives, meter.processes.deciding()))
    waits = has_reader and not os.path.exists(folder.at(PRINTED))
    if not (waits or meter.unwritten):  # else what was counted is in memory alone
        folder.remove()
    _let_go(wake)
    # `run` waits for a server itself; a store that is on this machine is not waited for.
    by_track = meter.role != COMMAND
    sends_itself = by_track if meter.config.server else not by_track and has_service()
    if sends_itself:
        loop.sync()
    return 0


def save_when_terminated(meter: JobMeter, folder: JobFolder) -> None:
    """Have SIGTERM save: with it to everybody begins the end of a cgroup or container."""

    def save(*_: Any) -> None:
        meter.save_soon()
        folder.wake()

    signal.signal(signal.SIGTERM, save)


def _let_go(wake: int) -> None:
    """Give up the folder's lock and FIFO. The process that reads the lines may delete it then."""
    os.close(wake)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.close(nowhere)


def _end_lines(ended: Ended, log: Log) -> list[str]:
    try:
        return lines(ended)
    except Exception as error:  # the journal is whole, and `gramwatt sync` scores it
        log.write(f"the line at the end failed: {error!r}")
        return []


def _config(args: dict[str, Any]) -> Config:
    try:
        return _placed(consistent(resolve(args)))
    except Exception:  # a setting must not cost the job its measurement
        return Config()


def _placed(config: Config) -> Config:
    """Return the configuration with the cloud's region, if no place is given and it is allowed."""
    if config.zone or config.region or not config.cloud_metadata:
        return config
    from gramwatt.collectors.settings.cloud import cloud_region

    region = cloud_region(os.environ)
    if region is None:
        return config
    tags = {"region_source": "cloud metadata", **config.tags}
    return replace(config, region=region, tags=tags)


def _close_inherited() -> None:
    """Close every descriptor above stderr: the meter must not hold a pipe of the job open."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        os.closerange(3, 1024)
        return
    for number in numbers:
        if number > 2:
            with contextlib.suppress(OSError):
                os.close(number)


if __name__ == "__main__":
    status = main()
    sys.stdout = None
    os._exit(status)  # nothing is buffered, and nobody must wait for the interpreter's end
