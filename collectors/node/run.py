"""The process of `gramwatt node`: its loop, its signals, and the delivery of what it journals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.common import files
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.installation import has_service
from gramwatt.collectors.journal.spool import acquire
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.node import pods
from gramwatt.collectors.node.agent import NodeAgent, state_path
from gramwatt.collectors.node.labels import PodLabels, api_server
from gramwatt.collectors.node.owners import Owner, Owners, PodNames
from gramwatt.collectors.tracking.messages import print_message

DELIVER_S, DELIVER_LOCAL_S = 120.0, 600.0
LAST_DELIVERY_S = 15.0
"""How long the delivery at the end is waited for [s]: Kubernetes gives 30 s in all."""
FIRST_LIST_S = 4.0


class Places(NamedTuple):
    """Where the node shows its pods and cgroups. `pod_resources` is None for the kubelet's own
    place, which need not exist; `labels_of` is the node whose pods' labels are asked for.
    """

    pod_resources: Path | None
    pod_logs: Path
    cgroup: Path
    labels_of: str | None


class NodeWhose:
    """What the kubelet, the API server and /proc say together."""

    def __init__(self, places: Places) -> None:
        self.said: list[tuple[str, str]] = []
        """Notices since the last look."""
        names = PodNames(places.pod_logs)
        names.refresh()
        self._owners = Owners(names)
        self._pods = self._asked(places.pod_resources, names)
        self._labels: PodLabels | None = None
        if places.labels_of:
            self._labels = PodLabels(api_server(places.labels_of), self._notify)
            self._labels.start()

    def reservations(self, now_ns: int) -> Sequence[pods.Reservation]:
        """Return what pods hold."""
        return self._pods.reservations(now_ns) if self._pods else ()

    def of(self, pid: int) -> Owner | None:
        """Return the owner of a process; None for one that cannot be seen."""
        return self._owners.of(pid)

    def describe(self, owner: Owner) -> Owner:
        """Return the owner with the labels of its pod."""
        return self._labels.described(owner) if self._labels else owner

    def _notify(self, code: str, text: str) -> None:
        if (code, text) not in self.said:
            self.said.append((code, text))

    def _asked(self, path: Path | None, names: PodNames) -> pods.PodDevices | None:
        if path is None and not pods.SOCKET.exists():
            return None
        try:
            ask = pods.caller(path or pods.SOCKET)
        except ImportError:
            self._notify("pods-unknown", f"{pods.without_grpc()}.")
            return None
        found = pods.PodDevices(ask, names, self._notify)
        found.settle(FIRST_LIST_S)
        return found


class Delivery:
    """Runs `gramwatt sync` beside the meter, one at a time."""

    def __init__(self, config: Config) -> None:
        self._server = config.server is not None
        self._every_s = DELIVER_S if self._server else DELIVER_LOCAL_S
        self._wanted = self._server or has_service()
        self._process: subprocess.Popen[bytes] | None = None
        self._due_s = self._every_s

    def tick(self, age_s: float) -> None:
        """Start a sync when it is time, by the agent's age [s]."""
        running = self._process is not None and self._process.poll() is None
        if self._wanted and not running and age_s >= self._due_s:
            self._due_s = age_s + self._every_s
            self._start()

    def last(self) -> None:
        """Send what is left to the server, and wait for it a while."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        if self._server:
            self._start()
        if self._process is not None:
            try:
                self._process.wait(LAST_DELIVERY_S)
            except subprocess.TimeoutExpired:  # the next agent's first sync sends it
                self._process.terminate()

    def _start(self) -> None:
        line = [sys.executable, "-m", "gramwatt", "sync", "--quiet"]
        try:
            self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL)
        except OSError as error:
            print_message(f"the journals are not sent: {error}")


def run_node(config: Config, home: Path, places: Places) -> int:
    """Measure the node until SIGTERM or SIGINT; returns the exit code."""
    folder = state_path(home).parent
    files.folder(folder)
    lock = acquire(folder / "lock")
    if lock is None:
        print_message(f"another `gramwatt node` measures with the home {home}; give it its own")
        return 1
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    whose, delivery = NodeWhose(places), Delivery(config)
    agent = NodeAgent(Dependencies(), config, home, whose, cgroup=places.cgroup, say=print_message)
    agent.start()
    print_message(f"node {agent.node}: {agent.summary()}; the journal is in {home}")
    began_ns = agent.timeline.now_ns()
    while not ended.is_set():
        agent.tick()
        while whose.said:
            agent.notify(*whose.said.pop(0))
        now_ns = agent.timeline.now_ns()
        delivery.tick((now_ns - began_ns) / NS_PER_S)
        ended.wait(max(0.001, (agent.due_ns() - agent.timeline.now_ns()) / NS_PER_S))
    agent.stop()
    delivery.last()  # while the journals are locked: none of them is a dead meter's
    agent.release()
    os.close(lock)
    return 0
