"""The node's meter from its start to its end: every board and the host once, a journal a job.

It neither waits nor starts processes: `run` drives it with real time, the tests with a virtual
clock. What it knows is in one state file, which is replaced before the journals are written; the
next agent of this boot goes on from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gramwatt.collectors.common import files, identity
from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.devices.device import Device
from gramwatt.collectors.devices.group import DeviceGroup, NodeJob
from gramwatt.collectors.devices.port import Billed, DevicePort, GpuUser
from gramwatt.collectors.devices.sharing import UsersPort
from gramwatt.collectors.journal.intervals import Interval, Schedule
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.node.books import NodeBooks, Shared
from gramwatt.collectors.node.division import BoardLedger, Claim, Claims, claims, kept, names
from gramwatt.collectors.node.host import CGROUP, NodeHost
from gramwatt.collectors.node.owners import Owner
from gramwatt.collectors.node.pods import Reservation

LOOK_NS, SAVE_NS = NS_PER_S, 10 * NS_PER_S
HELD_LOOKS = 10
"""Looks for each at the processes on a board that one pod holds: for its cgroup's sake only."""
FORM = 1
"""Number of the form of the state file, of which its digest says that an agent has written it."""
STANDING = frozenset(
    {"meter-synthetic", "meter-source-absent", "energy-unmeasured", "pods-unknown"}
)


class Whose(Protocol):
    """Finds the owners of devices and of the processes on them."""

    def reservations(self, now_ns: int) -> Sequence[Reservation]:
        """Return what pods hold."""

    def of(self, pid: int) -> Owner | None:
        """Return the owner of a process; None for one that cannot be seen."""

    def describe(self, owner: Owner) -> Owner:
        """Return the owner with more of what is known of it."""


class NodeAgent:
    """`start` once, then `tick` when `due_ns` says so, at last `stop`."""

    def __init__(
        self, dependencies: Dependencies, config: Config, home: Path, whose: Whose, **more: Any
    ) -> None:
        """`more` is the folder of the node's cgroups, `cgroup`, and `say`, which tells an
        operator something.
        """
        self._dependencies, self._whose = dependencies, whose
        self._cgroup: Path = more.get("cgroup", CGROUP)
        self._say: Callable[[str], None] = more.get("say", lambda text: None)
        node = identity.node_id(True) if config.allow_host_names else identity.kernel_id()
        self.node, self.state_path = node, state_path(home)
        known, damage = self._known()
        clock = dependencies.clock
        start_ns = clock.wall_ns()
        self.timeline = Timeline(clock, start_ns - clock.now_ns(), start_ns)
        if known:
            self.timeline = Timeline(clock, int(known["offset_ns"]), int(known["start_ns"]))
        self._state = known
        shared = Shared(home, node, dependencies.boot, identity.machine_id(), config, self._say)
        self.books = NodeBooks(shared, known["jobs"] if known else ())
        self._job = NodeJob(
            node,
            self.timeline,
            Schedule(self.timeline.start_ns),
            dependencies.random,
            self._put,
            self.notify,
        )
        self._boards: list[tuple[DevicePort, BoardLedger]] = []
        self._groups: list[DeviceGroup] = []
        self._host: NodeHost | None = None
        self._cgroups: dict[str, str] = dict(known["cgroups"]) if known else {}
        self._said: set[str] = set()
        self._look_ns = self._save_ns = 0
        self._looks = 0
        if damage:
            self.notify("meter-gap", damage)

    def start(self) -> None:
        """Find the boards and take their first readings, or go on from the agent before."""
        known, now_ns = self._state, self.timeline.now_ns()
        for port in self._dependencies.ports(self._dependencies.environ):
            group = DeviceGroup(self._job, port, self)
            self._groups.append(group)
            self._adopt(group, now_ns)
        self._host = NodeHost(self._job, self._dependencies, self.books, self._cgroup)
        self._host.begin(known["host"] if known else None, now_ns)
        self._look(now_ns, new=[ledger for _, ledger in self._boards])
        self._look_ns = (now_ns // LOOK_NS + 1) * LOOK_NS
        self._save_ns = (now_ns // SAVE_NS + 1) * SAVE_NS

    def summary(self) -> str:
        """Return in words what is measured."""
        names = [ledger.board.name for _, ledger in self._boards]
        counted = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
        return ", ".join([*counted, "processor and memory"])

    def due_ns(self) -> int:
        """Return when `tick` is due next, on the timeline [ns]."""
        dues = [one.due_ns() for one in (*self._groups, self._host) if one]
        return min(filter(None, (*dues, self._look_ns, self._save_ns)), default=self._look_ns)

    def tick(self) -> None:
        """Take the readings that are due, look whose the boards are, and journal."""
        now_ns = self.timeline.now_ns()
        for group in self._groups:
            if group.retry_at_ns and now_ns >= group.retry_at_ns:
                before = len(self._boards)
                self._adopt(group, now_ns)
                if new := [ledger for _, ledger in self._boards[before:]]:
                    self._look(now_ns, new=new)
            group.tick()
        host_ns = self._host.due_ns() if self._host else None
        if host_ns is not None and now_ns >= host_ns:
            self._settle_host(now_ns)
        if now_ns >= self._look_ns:
            self._look_ns = (now_ns // LOOK_NS + 1) * LOOK_NS
            self._look(now_ns)
        if now_ns >= self._save_ns:
            self._save_ns = (now_ns // SAVE_NS + 1) * SAVE_NS
            self._settle_host(now_ns)
            for job in self.books.jobs.values():
                job.describe(self._whose.describe(job.owner))
            self.save()
            self.books.end_gone(now_ns, {one.owner.job_id for one in self._claims()})

    def stop(self) -> None:
        """Take the final readings and write all; the jobs stay open for the next agent, and the
        journals locked until `release`.
        """
        now_ns = self.timeline.now_ns()
        for group in self._groups:
            group.stop(now_ns)
        self._settle_host(now_ns)
        if self._host:
            self._host.stop(now_ns)
        for job in self.books.jobs.values():
            job.close_open()
        self.save()
        for group in self._groups:
            group.close()

    def release(self) -> None:
        """Give up the journals' locks."""
        for job in self.books.jobs.values():
            job.release()

    def save(self) -> None:
        """Replace the state file, then write the journals; without the first, none of them."""
        devices = {one.meter.ledger.device_id: one.meter.state() for one in self._devices()}
        before = self._state or {"devices": {}, "boards": {}}  # of boards that do not answer yet
        state = {
            "form": FORM,
            "boot": self._dependencies.boot,
            "start_ns": self.timeline.start_ns,
            "offset_ns": self.timeline.offset_ns,
            "devices": {**before["devices"], **devices},
            "host": self._host.state() if self._host else None,
            "jobs": self.books.state(),
            "cgroups": self._cgroups,
            "boards": before["boards"]
            | {
                ledger.device_id: [ledger.idle_w, [one.owner.job_id for one in ledger.claims]]
                for _, ledger in self._boards
            },
        }
        try:
            files.folder(self.state_path.parent)
            files.replace_text(self.state_path, with_digest(state))
        except OSError as error:  # the lines wait in memory until there is room
            self._say(f"the state cannot be written, lines wait in memory: {error}")
            return
        for job in self.books.jobs.values():
            job.save()

    def notify(self, code: str, message: str) -> None:
        """Leave a notice with the jobs of now; an operator is told once."""
        text = f"{code}: {message}"[:512]
        self.books.notify(text, standing=code in STANDING)
        if text not in self._said and len(self._said) < 256:
            self._said.add(text)
            self._say(text)

    def ledger(
        self,
        port: DevicePort,
        item: Billed,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
        kind: str | None,
    ) -> BoardLedger:
        """Return the ledger that divides a board; `emit` is the jobs' own ledgers'."""
        ledger = BoardLedger(item.board, schedule, self.books, kind)
        if self._state:
            ledger.idle_w = self._state["boards"].get(ledger.device_id, [None])[0]
        self._boards.append((port, ledger))
        return ledger

    def _put(self, record: type[Any], /, **fields: Any) -> None:
        """Keep a device's record for the jobs that will have it, slices of it too."""
        device_id, devices = fields["device_id"], self.books.shared.devices
        devices[device_id] = fields
        board = next((one.board for _, one in self._boards if one.device_id == device_id), None)
        for part in board.slices if board else ():
            memory_b = fields["memory_b"]
            name = part.uuid.replace("/", ":")
            share = {"memory_b": memory_b * part.share if memory_b else None}
            devices[name] = {**fields, **share, "device_id": name, "kind": "attributed"}

    def _adopt(self, group: DeviceGroup, now_ns: int) -> None:
        """Add the boards of a driver that answers, from where the agent before has left them."""
        known = self._state["devices"] if self._state else {}
        group.adopt({}, {"": {}, **known}, now_ns, expected=False)

    def _look(self, now_ns: int, *, new: Sequence[BoardLedger] = ()) -> None:
        """Find whose each board is now; where that changes it is read at this moment.

        A `new` one has been read just now, and before by the agent before at most.
        """
        reserved = list(self._whose.reservations(now_ns))
        found = [(one, self._found(port, one, reserved)) for port, one in self._boards]
        changed = [
            one for one, those in found if one not in new and names(those) != names(one.claims)
        ]
        if changed:  # what the host has used up to now is of those before
            self._settle_host(now_ns)
        for ledger, those in found:
            if ledger in new and self._state:
                before = self._state["boards"].get(ledger.device_id, [None, []])[1]
                ledger.claim(1, kept(before, those))
            ledger.claim(now_ns, those)
        self._looks += 1
        for group in self._groups:
            if any(one in changed for one in group.ledgers):
                group.sampler.add_boundary(now_ns)

    def _found(
        self, port: DevicePort, ledger: BoardLedger, reserved: Sequence[Reservation]
    ) -> Claims:
        board = ledger.board
        holders = {one.owner for one in reserved if one.board_id == board.uuid}
        users: list[tuple[Owner | None, GpuUser]] = []
        if len(holders) != 1 or self._looks % HELD_LOOKS == 0:
            users = [(self._whose.of(user.pid), user) for user in _users(port, board.ordinal)]
        for owner, _ in users:
            if owner and owner.group:
                self._cgroups[owner.job_id] = owner.group
        found = claims(board, reserved, users)
        return tuple(one._replace(owner=self._described(one.owner)) for one in found)

    def _described(self, owner: Owner) -> Owner:
        job = self.books.jobs.get(owner.job_id)
        return job.owner if job else self._whose.describe(owner)

    def _settle_host(self, now_ns: int) -> None:
        if self._host is None:
            return
        held: dict[Owner, float] = {}
        for one in self._claims():
            held[one.owner] = held.get(one.owner, 0.0) + one.part.idle / len(self._boards)
        alive = {owner.job_id for owner in held} | set(self.books.jobs)
        self._cgroups = {name: path for name, path in self._cgroups.items() if name in alive}
        self._host.settle(now_ns, held, self._cgroups)

    def _claims(self) -> list[Claim]:
        return [claim for _, ledger in self._boards for claim in ledger.claims]

    def _devices(self) -> list[Device]:
        return [device for group in self._groups for device in group.sampler.devices]

    def _known(self) -> tuple[Mapping[str, Any] | None, str]:
        """Return the state of the last agent of this boot, and in words why it cannot be used.

        A file that no agent wrote as it is, or one of another release, is set aside: its jobs end
        where their journals do.
        """
        try:
            text = self.state_path.read_bytes()
        except OSError:
            return None, ""
        try:
            state = json.loads(text)
            whole = state["form"] == FORM and text.decode() == with_digest(state)
        except (KeyError, TypeError, ValueError):
            whole = False
        if whole:
            return (state if state["boot"] == self._dependencies.boot else None), ""
        aside = self.state_path.with_suffix(".unreadable")
        with suppress(OSError):  # it is replaced soon
            self.state_path.replace(aside)
        told = "what was measured since its last journal line is not known"
        return None, f"the agent's state was damaged or of another release; {told} ({aside.name})."


def state_path(home: Path) -> Path:
    """Return where the agent of a home keeps what it knows."""
    return home / "node" / "state.json"


def with_digest(state: Mapping[str, Any]) -> str:
    """Return the state as JSON with a digest: each value is trusted where the digest is right."""
    told = {name: value for name, value in state.items() if name != "sha256"}
    text = json.dumps(told, separators=(",", ":"))
    return f'{text[:-1]},"sha256":"{hashlib.sha256(text.encode()).hexdigest()}"}}'


def _users(port: DevicePort, index: int) -> tuple[GpuUser, ...]:
    if not isinstance(port, UsersPort):
        return ()
    try:
        return port.users(index)
    except Exception:  # as if the driver did not report users
        return ()
