"""The meter process: `python -m gramwatt.collectors.meter.main`, one per client.

One loop waits for the client's lines, the client's death and the next reading, whichever comes
first. No threads but those of the setting `metrics` and of servers whose counters are read; nothing
inherited, nothing written to the job's output.
docs/measuring.md describes the protocol.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gramwatt.collectors.common.catalogs import consistent
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.config import Config, for_own_process, resolve
from gramwatt.collectors.common.installation import has_service
from gramwatt.collectors.common.json_lines import decoded, encoded
from gramwatt.collectors.common.proc import process_exists
from gramwatt.collectors.host.codecarbon import starter
from gramwatt.collectors.journal.spool import SpoolFolder
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.meter.log import Log
from gramwatt.collectors.meter.node_meter import NodeMeter
from gramwatt.collectors.spool.score import (
    Ended,
    lines,
    preload_engine,
    report_location,
    runs_elsewhere,
)
from gramwatt.collectors.tracking.client import READY_TIMEOUT_S

FIRST_LINE_TIMEOUT_S = 30.0
SYNC_EVERY_NS = 300 * NS_PER_S
LONGEST_WAIT_S = 1.0
REST_NS = NS_PER_S
"""After a tick that has raised: what it left undone stays due."""
IDLE_S = 0.3
"""A pause before the next reading that is long enough to load the engine or a zone [s]."""
LINE_LIMIT_B = 1 << 20


class ClientChannel:
    """The client's lines on standard input, and replies on standard output."""

    def __init__(self) -> None:
        self.ended = False
        self._buffer = b""
        for descriptor in (0, 1):
            with contextlib.suppress(OSError):
                os.set_blocking(descriptor, False)

    def commands(self) -> list[dict[str, Any]]:
        """Return the lines the client has sent; sets `ended` at the end of its stream."""
        parts = [self._buffer]
        try:
            while part := os.read(0, 65536):
                parts.append(part)
            self.ended = True
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True
        *lines, self._buffer = b"".join(parts)[-LINE_LIMIT_B:].split(b"\n")
        return [command for line in lines if (command := decoded(line))]

    def reply(self, message: dict[str, Any]) -> bool:
        """Send one line; False for a client that is gone or does not read: nothing waits for it."""
        try:
            os.write(1, encoded(message))
        except OSError:
            return False
        return True


class Loop:
    """Waits for the next event and passes it to the meter."""

    def __init__(self, meter: NodeMeter, channel: ClientChannel, parent: int | None) -> None:
        self._meter = meter
        self._channel = channel
        self._parent_pid = parent
        self._child_pid: int | None = None
        self._selector = selectors.DefaultSelector()
        self._pidfd: int | None = None
        self._sync_at_ns = meter.timeline.now_ns() + SYNC_EVERY_NS
        self._syncs: list[Any] = []
        self._confirmed = 0
        self._rests_until_ns = 0
        self._wants_metrics = meter.config.metrics is not None
        # `run` does these itself before and after its command.
        by_track = meter.role == "track"
        self._idle_tasks = [self._check_place, self._prepare_end] if by_track else []
        """What is done once, in the first pauses that are long enough."""
        self._watch_input()
        self._watch_process()

    def run(self) -> None:
        """Serve the meter until the job is closed."""
        meter = self._meter
        while not meter.closed:
            due_ns = max(meter.due_ns(), self._rests_until_ns)
            wait_s = (due_ns - meter.timeline.now_ns()) / NS_PER_S
            if self._idle_tasks and wait_s > IDLE_S:
                self._idle_tasks.pop(0)()
                continue
            events = self._selector.select(max(0.0, min(wait_s, LONGEST_WAIT_S)))
            for key, _ in events:
                self._dispatch(key)
            if not meter.closed:
                self._timers()

    def _dispatch(self, key: selectors.SelectorKey) -> None:
        # An earlier event of the same select may have closed the job or removed this descriptor.
        if not self._meter.closed and self._selector.get_map().get(key.fd) is key:
            key.data()

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

    def _timers(self) -> None:
        meter = self._meter
        if meter.timeline.now_ns() >= self._rests_until_ns:
            try:
                meter.tick()
            except Exception as error:
                self._rests_until_ns = meter.timeline.now_ns() + REST_NS
                meter.log.write(f"a tick failed: {error!r}")
        self._export()
        self._reply_notices()
        self._confirm_counts()
        parent = self._parent_pid
        if self._pidfd is None and parent and not process_exists(parent):
            self._parent_ended()
        now_ns = meter.timeline.now_ns()
        if meter.config.server and now_ns >= self._sync_at_ns:
            self._sync_at_ns = now_ns + SYNC_EVERY_NS
            self._syncs = [process for process in self._syncs if process.poll() is None]
            self.sync()

    def _export(self) -> None:
        """Start what the setting `metrics` asks for, in the meter that measures."""
        meter = self._meter
        if not self._wants_metrics or meter.devices is None:
            return
        self._wants_metrics = False
        try:
            from gramwatt.collectors.meter.metrics import serve_figures

            serve_figures(SpoolFolder(meter.journal.folder), meter.config, meter.notify)
        except Exception as error:
            meter.notify("integration-failed", f"no figures are served: {error!r}")

    def _check_place(self) -> None:
        try:
            self._meter.check_place()
        except Exception as error:
            self._meter.log.write(f"the zone was not checked: {error!r}")
        self._reply_notices()

    def _prepare_end(self) -> None:
        if self._meter.devices:  # of several meters of a job the leader ends last
            with contextlib.suppress(Exception):
                preload_engine()

    def _reply_notices(self) -> None:
        if self._meter.unreported and (notices := self._meter.new_notices()):
            self._channel.reply({"reply": "notice", "notices": notices})

    def _confirm_counts(self) -> None:
        """Tell the client which of its count lines are on disk, if it reads."""
        saved = self._meter.counts.saved
        if saved > self._confirmed and self._channel.reply({"reply": "saved", "seq": saved}):
            self._confirmed = saved

    def handle(self, commands: list[dict[str, Any]]) -> None:
        """Act on lines that have been read already, and on the end of the client's stream."""
        for command in commands:
            if not self._meter.closed:
                self._handle_one(command)
        if self._channel.ended and not self._meter.closed:
            self._client_gone()

    def _watch_process(self) -> None:
        self._pidfd = _pidfd(self._parent_pid)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ, self._parent_ended)

    def _watch_input(self) -> None:
        # A file or a terminal as input cannot be polled; then the parent's end is all there is.
        with contextlib.suppress(OSError, ValueError):
            self._selector.register(0, selectors.EVENT_READ, self._on_input)

    def _on_input(self) -> None:
        self.handle(self._channel.commands())

    def _handle_one(self, command: dict[str, Any]) -> None:
        try:
            if command.get("cmd") == "child":
                self._child_pid = int(command.get("pid") or 0) or None
            self._meter.handle(command)
        except Exception as error:
            self._meter.log.write(f"a line of the client failed: {error!r}")

    def _parent_ended(self) -> None:
        self._on_input()  # a stop line may have been its last act
        if not self._meter.closed and not self._channel.ended:
            self._client_gone()

    def _client_gone(self) -> None:
        """Close the job, or go on measuring the command that a killed wrapper has left running."""
        pid, self._child_pid = self._child_pid, None
        if pid is None or not process_exists(pid):
            self._meter.close({"state": "killed"})
            return
        self._meter.log.write(f"the wrapper is gone; its command {pid} goes on")
        for watched in (0, self._pidfd):
            if watched is not None:
                with contextlib.suppress(KeyError, ValueError, OSError):
                    self._selector.unregister(watched)
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._parent_pid = pid
        self._watch_process()


def main() -> int:
    """Run one meter from its start line to its closed reply."""
    _close_inherited()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    channel = ClientChannel()
    start, early = _first_command(channel)
    if start is None:
        return 2
    dependencies = Dependencies()
    dependencies.codecarbon = starter(dependencies.environ)
    config = _config(start)
    meter = NodeMeter(dependencies, config, start, begin_mark(start, dependencies.clock.mono_ns()))
    # The end of a cgroup or container begins with SIGTERM to everybody in it.
    signal.signal(signal.SIGTERM, lambda *_: meter.save_soon())
    channel.reply(meter.start())
    loop = Loop(meter, channel, start.get("parent_pid"))
    loop.handle(early)
    loop.run()
    ended = Ended(meter.job_id, meter.config, meter.home, meter.unwritten)
    closed: dict[str, Any] = {"reply": "closed", "home": str(meter.home)}
    closed["unwritten"] = meter.unwritten
    meter.release()  # before the reply: its reader finds a folder that nobody writes to
    silent = meter.wants_lines and _is_silent(ended)
    closed |= {"lines": []} if silent else {}  # at once, or the client takes the job for ended
    channel.reply({**closed, "see": report_location(ended), "notices": meter.new_notices()})
    if meter.wants_lines and not silent:
        channel.reply({"reply": "ended", "lines": _end_lines(ended, meter.log)})
    # `run` waits for a server itself; a store that is on this machine is not waited for.
    by_track = meter.role == "track"
    if by_track if meter.config.server else not by_track and has_service():
        loop.sync()
    return 0


def _is_silent(ended: Ended) -> bool:
    with contextlib.suppress(OSError):
        return not ended.unwritten and runs_elsewhere(ended)
    return False


def _end_lines(ended: Ended, log: Log) -> list[str]:
    try:
        return lines(ended)
    except Exception as error:  # the journal is whole, and `gramwatt sync` scores it
        log.write(f"the line at the end failed: {error!r}")
        return []


def begin_mark(start: Mapping[str, Any], mono_ns: int) -> dict[str, int]:
    """Return the clocks [ns] at the begin of the job of a start line that was read at `mono_ns`.

    A command begins when its meter is ready, at the latest when `run` waits no longer; so what the
    meter takes to start is not the job's. Empty where the line's own clocks hold.
    """
    if start.get("role") != "command" or start.get("restart") or "mono_ns" not in start:
        return {}
    waited_ns = min(mono_ns - int(start["mono_ns"]), int(READY_TIMEOUT_S * NS_PER_S))
    clocks = ("mono_ns", "wall_ns", "boot_ns")
    return {name: int(start[name]) + waited_ns for name in clocks if name in start}


def _first_command(channel: ClientChannel) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the start line and the lines right after it; None when the client is gone."""
    with selectors.DefaultSelector() as selector:
        with contextlib.suppress(OSError, ValueError):
            selector.register(0, selectors.EVENT_READ)
        while selector.select(FIRST_LINE_TIMEOUT_S):
            commands = channel.commands()
            if commands:
                first, *rest = commands
                return (first if first.get("cmd") == "start" else None), rest
            if channel.ended:
                break
    return None, []


def _config(start: dict[str, Any]) -> Config:
    try:
        return _placed(consistent(resolve(start.get("args") or {})))
    except Exception:  # a setting must not cost the job its measurement
        return Config()


def _placed(config: Config) -> Config:
    """Return the configuration with the cloud's region, if no place is given and it is allowed."""
    if config.zone or config.region or not config.cloud_metadata:
        return config
    from gramwatt.collectors.common.cloud import cloud_region

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


def _pidfd(pid: int | None) -> int | None:
    try:
        return os.pidfd_open(pid) if pid else None
    except (AttributeError, OSError):
        return None


if __name__ == "__main__":
    status = main()
    sys.stdout = None
    os._exit(status)  # nothing is buffered, and the client must not wait for the interpreter's end
