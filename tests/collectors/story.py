"""A job's life drawn from a seed: ranks come and go, meters die, the disk fills, clocks jump.

Only the surroundings are made up (clock, NVML, the system calls of the journal); meters, journal,
spool and recovery are the real ones. `Story.live` tells the story; `booked` and `truth` say what
the journal has, and what was drawn from the wall.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.identity import node_id
from gramwatt.collectors.common.launches import job_id
from gramwatt.collectors.journal.recovery import close_dead
from gramwatt.collectors.journal.spool import SpoolFolder, discard
from gramwatt.collectors.meter.node_meter import NodeMeter
from gramwatt.collectors.tracking.count_file import CountFile
from tests.collectors.doubles.synthetic import SyntheticGpu
from tests.collectors.mortal import Death, Disk, Rank
from tests.collectors.rig import MACHINE, Rig, gpu

SAVED_NS = round(10.05 * NS_PER_S)
RETRY_NS = 40 * NS_PER_S
"""A lost board is asked again after 10 s, then after twice as long each time."""
RAM_W = MACHINE.memory_total_b / 2**30 * 0.19
KINDS = ("reset", "backward", "frozen", "spike", "failing", "lost")
"""Of these only a reset can be told from energy while no meter looks; so the others come in
stories without a meter's death."""
STEADY = {"type": "constant", "power_w": 250.0}
WAVES: list[dict[str, Any]] = [
    {"type": "square", "low_w": 100, "high_w": 700, "period_s": 3.7},
    {"type": "steps", "low_w": 80, "high_w": 700, "step_s": 0.21, "seed": 3},
    {"type": "ramp", "low_w": 50, "high_w": 700, "period_s": 47.0},
]


class Sync:
    """One `gramwatt sync`, which sends what it finds at its begin and deletes the folder at its
    end: other runs of the job begin, go on and end in between.
    """

    def __init__(self, story: Story) -> None:
        self._story = story
        self._before: dict[str, int] | None = None

    def begin(self) -> None:
        """Close what is dead and send every line."""
        folder = self._story.spool()
        if folder.unclosed():
            close_dead(folder)
        self._before = folder.sizes_b()
        self._story.delivered += folder.lines()

    def end(self) -> None:
        """Send what is new, and delete the folder if nobody lives in it."""
        story = self._story
        folder = story.spool()
        if folder.sizes_b() != self._before:
            story.delivered += folder.lines()
        if folder.is_closed():
            discard(story.home, folder)
            story.deletions += 1


class Story(Rig):
    """One machine and one job, told from a seed; `step` is its number in a Slurm allocation."""

    def __init__(self, home: Path, seed: int, step: int = 0) -> None:
        draw = self.draw = Random(seed)
        self.arrivals = Random(~seed)  # whether a line or a reply arrives before a death
        self.syncs = Random(seed + 10**6)  # when `gramwatt sync` delivers the folder and deletes it
        self.delivering = self.syncs.random() < 0.5
        allocation = {"SLURM_JOB_ID": str(4242 + seed // 2), "SLURM_STEP_ID": str(step)}
        self.job_id, _ = job_id("train.py:7 0", allocation)
        self.role = "track" if seed % 2 == 0 else "command"
        self.by_children = Random(seed + 2 * 10**6)  # what a rank's child process counts
        self.length_s = 10 ** draw.uniform(0.7, 3.1)
        self.lying, self.deadly = draw.random() < 0.4, draw.random() < 0.7
        wave = STEADY if self.lying else draw.choice([STEADY, *WAVES])
        boards = [gpu(wave, faults=self._faults()) for _ in range(draw.choice([1, 1, 2]))]
        super().__init__(home, *boards)
        self.clock.sleep(draw.uniform(0, 400))
        for board in self.nvml.gpus:
            board._origin_s = self.clock.now_ns() / NS_PER_S
        self.zero_ns = self.clock.now_ns()
        self.steady = wave is STEADY
        self.disk = Disk(draw)
        self.ranks: list[Rank] = []
        self.uploads: list[list[bytes]] = []
        self.delivered: list[bytes] = []
        self.deletions = 0
        self.sent = self.lost_counts = 0.0
        self.restarts = 0
        self.blind: list[tuple[int, int]] = []
        self.deaf: list[list[int]] = []

    def live(self) -> None:
        """From the first client's start to the last one's end, and until the disk has room."""
        plan = self._plan()
        for at_s, action in sorted(plan, key=lambda item: item[0]):
            self._pass(self.zero_ns + round(at_s * NS_PER_S))
            action()
        for rank in self.ranks:
            if rank.end_ns is None and rank.fate != "dead":
                self._end(rank)
        while any(rank.end_ns is None for rank in self.ranks):
            self._pass(self.clock.now_ns() + NS_PER_S)
        self._room()
        for path in (self.home / "spool").rglob("*.jsonl"):
            if not path.stat().st_size:  # an hour later nobody takes it for a meter just starting
                os.utime(path, (0, 0))

    def spool(self) -> SpoolFolder:
        """The job's folder; a sync may have deleted it."""
        return SpoolFolder(self.home / "spool" / self.job_id / node_id())

    def spans(self, *, closed: bool = False) -> list[tuple[int, int]]:
        """When the job's devices were reserved, by the boot clock [ns]: until the stop marks, or
        until every client had its meter's last word.
        """
        found: list[tuple[int, int]] = []
        for rank in sorted(self.ranks, key=lambda rank: rank.start_ns):
            end_ns = rank.end_ns or rank.start_ns
            end_ns = max(end_ns, rank.closed_ns) if closed else end_ns
            if found and rank.start_ns <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end_ns))
            else:
                found.append((rank.start_ns, end_ns))
        return found

    def blind_spans(self, board: SyntheticGpu) -> list[tuple[int, int]]:
        """Spans whose energy nobody can know [ns]: the last seconds of whoever died with the job,
        and a board that could not be read until the job was over.
        """
        found = list(self.blind)
        for fault in board.faults:
            if fault["type"] not in ("failing", "lost"):
                continue
            from_ns = round((board._origin_s + fault["at_s"] - 1.1) * NS_PER_S)
            until_ns = round((board._origin_s + fault["until_s"]) * NS_PER_S)
            for start_ns, end_ns in self.spans():
                if max(from_ns, start_ns) < end_ns <= until_ns + RETRY_NS:
                    found.append((max(from_ns, start_ns), end_ns))
        return found

    def _plan(self) -> list[tuple[float, Callable[[], None]]]:
        draw, length_s = self.draw, self.length_s
        plan: list[tuple[float, Callable[[], None]]] = []
        for number in range(draw.choice([1, 1, 1, 2, 3])):
            start_s = 0.0 if number == 0 else draw.uniform(0, length_s * 0.7)
            end_s = start_s + draw.uniform(0.2, 1.0) * (length_s - start_s)
            fate = draw.choice(["stop", "stop", "eof", "both"])
            rank = Rank(number, (0, 0), 0, fate)
            plan.append((start_s, lambda rank=rank: self._join(rank)))
            plan.append((end_s, lambda rank=rank: self._end(rank)))
            for _ in range(draw.choice([0, 1, 1, 2, 3]) if self.deadly else 0):
                plan.append((draw.uniform(start_s, end_s), lambda rank=rank: self._doom(rank)))
            for _ in range(draw.randrange(12)):
                plan.append((draw.uniform(start_s, end_s), lambda rank=rank: self._count(rank)))
        for _ in range(draw.choice([0, 1, 3])):
            plan.append((draw.uniform(0, length_s), self._upload))
        # Where a clock stood before it was set is known from the folder only.
        for _ in range(draw.choice([0, 0, 1, 2])):
            at_s = draw.uniform(0, length_s)
            plan += [] if self.delivering else [(at_s, self._jump)]
        for _ in range(self.syncs.choice([2, 4, 8]) if self.delivering else 0):
            at_s, takes_s = self.syncs.uniform(0, length_s), 10 ** self.syncs.uniform(-1, 1.5)
            sync = Sync(self)
            plan += [(at_s, sync.begin), (at_s + takes_s, sync.end)]
        blind = self.lying and not self.deadly  # nobody looks while the machine sleeps either
        for _ in range(0 if blind else draw.choice([0, 0, 0, 1])):
            plan.append((draw.uniform(0, length_s), self._suspend))
        for _ in range(draw.choice([0, 0, 1, 2])):
            at_s = draw.uniform(0, length_s)
            plan += [(at_s, self._fill), (at_s + 10 ** draw.uniform(-1, 2), self._room)]
        return plan

    def _faults(self) -> list[dict[str, Any]]:
        draw = self.draw
        if not self.lying:
            return []
        found = []
        for _ in range(draw.choice([1, 2])):
            at_s = draw.uniform(0, self.length_s)
            kind = "reset" if self.deadly else draw.choice(KINDS)
            fault: dict[str, Any] = {"type": kind, "at_s": at_s}
            if kind in ("backward", "spike"):
                fault["joules"] = 10 ** draw.uniform(3.5, 9)
            if kind not in ("reset", "backward"):
                fault["until_s"] = at_s + 10 ** draw.uniform(0, 1.5)
            if kind == "frozen":
                fault["catches_up"] = draw.random() < 0.5
            found.append(fault)
        return found

    def _pass(self, until_ns: int) -> None:
        """Let time pass as the loops would; wake who is due, bring back the dead."""
        while True:
            now_ns = self.clock.now_ns()
            alive = [rank for rank in self.ranks if rank.meter]
            waits = [r.meter.due_ns() - r.meter.timeline.now_ns() for r in alive if r.meter]
            back = [r.back_at_ns - now_ns for r in self.ranks if r.back_at_ns is not None]
            wait_ns = max(min([*waits, *back], default=10**15), 1000)
            if now_ns + wait_ns >= until_ns:
                self.clock.advance_ns(max(0, until_ns - now_ns))
                return
            self.clock.advance_ns(wait_ns + self.draw.randrange(2_000_000))
            for rank in alive:
                self._read(rank)
                if rank.meter and self._mortal(rank, rank.meter.tick):
                    self._confirm(rank, rank.meter)
            for rank in self.ranks:
                if rank.back_at_ns is not None and self.clock.now_ns() >= rank.back_at_ns:
                    self._launch(rank, restart=1)

    def _mortal(self, rank: Rank, act: Callable[[], Any]) -> bool:
        """Do something in a meter that may die of it; whether it lives."""
        self.disk.arm(rank.doomed)
        try:
            act()
        except Death:
            self._died(rank)
            return False
        finally:
            rank.doomed = self.disk.deadly if rank.meter else None
            self.disk.arm(None)
        return True

    def _died(self, rank: Rank) -> None:
        meter, rank.meter = rank.meter, None
        if meter is not None:
            meter.release()
            if meter.devices is not None:  # the kernel lets go of the boards' locks too
                meter.devices._locks.release()
            self._confirm(rank, meter)  # its last reply may have been on the way
        rank.doomed = None
        rank.wire.clear()
        now_ns = self.clock.now_ns()
        if rank.fate == "dead":
            self._gone(rank)
        else:
            rank.back_at_ns = now_ns + round(10 ** self.draw.uniform(-1, 1.5) * NS_PER_S)

    def _confirm(self, rank: Rank, meter: NodeMeter) -> None:
        """The meter's replies to counts, of which every second one is lost."""
        if self.arrivals.random() < 0.5:
            self.confirm_counts(meter)

    def _forget(self, rank: Rank) -> None:
        """What was counted since the last save of the open file may die with meter and client."""
        since_ns = self._saved_ns(self.clock.now_ns())
        self.lost_counts += sum(amount for at_ns, amount in rank.at_risk if at_ns >= since_ns)
        rank.at_risk.clear()

    def _gone(self, rank: Rank) -> None:
        self._forget(rank)
        rank.end_ns, rank.back_at_ns = self.clock.now_ns(), None
        self.clients.pop(100 + rank.number, None)
        if not any(other.meter or other.back_at_ns for other in self.ranks):
            self.blind.append((self._saved_ns(rank.end_ns), rank.end_ns))

    def _saved_ns(self, now_ns: int) -> int:
        """Since when at most nothing may be on disk: 10 s and the time of a write, and as much more
        as the disk was full, the machine asleep or no meter alive.
        """
        since_ns, before_ns = now_ns - SAVED_NS, now_ns
        while since_ns < before_ns:
            before_ns = since_ns
            for start_ns, end_ns in self.deaf:
                if start_ns <= now_ns and end_ns >= since_ns:
                    since_ns = min(since_ns, start_ns - SAVED_NS)
        return max(since_ns, self.zero_ns)

    def _heard(self) -> None:
        """The last span in which nothing could be saved is over."""
        for span in self.deaf:
            span[1] = min(span[1], self.clock.now_ns())

    def _join(self, rank: Rank) -> None:
        rank.start_ns = self.now()
        rank.mark = self.mark
        self.clients[100 + rank.number] = rank.start_ns
        self.ranks.append(rank)
        path = (
            f"{self.home}-memory-{self.job_id}-{rank.number}"  # not in the home, which may be moved
        )
        rank.shared = CountFile(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        rank.shared.append({"job_id": "job"})
        self._launch(rank)

    def _launch(self, rank: Rank, **more: Any) -> None:
        given: dict[str, Any] = {"job_id": self.job_id, "role": self.role, "mark": rank.mark}
        given["pid"] = 100 + rank.number
        rank.back_at_ns = None
        if not self.disk.full:
            self._heard()
        more["counts_path"] = rank.shared.path if rank.shared else None
        meter = rank.meter = self.start(**given, boot_ns=rank.start_ns, **more)
        if meter.devices is not None:
            self.restarts += "restart" in more
        rank.wire.clear()
        rank.lines = self._lines_of(meter)
        rank.lines.resend()
        self._tell(rank)

    def _count(self, rank: Rank) -> None:
        if rank.end_ns is not None or rank not in self.ranks or rank.fate == "dead":
            return
        amount = float(self.draw.randrange(1, 100))
        self.sent += amount
        rank.at_risk.append((self.clock.now_ns(), amount))
        if self.role == "track" and self.by_children.random() < 0.5:
            rank.count_in_child(amount, new=self.by_children.random() < 0.3)
        else:
            rank.lines.add(None, amount, None)
        if rank.meter is not None:
            self._tell(rank)

    def _tell(self, rank: Rank) -> None:
        """The client sends what it has, which the meter may read now, later, or not any more."""
        rank.lines.add_up()
        rank.lines.send(lambda line: rank.wire.append(line) is None)
        if self.arrivals.random() < 0.5:
            self._read(rank)

    def _read(self, rank: Rank) -> None:
        while rank.meter and rank.wire:
            rank.meter.handle(rank.wire.pop(0))

    def _doom(self, rank: Rank) -> None:
        if rank.meter is None or rank.fate == "dead":
            return
        if self.draw.random() < 0.4:
            self._died(rank)
        else:
            rank.doomed = self.draw.randrange(6)

    def _end(self, rank: Rank) -> None:
        if rank.end_ns is not None:
            return
        if rank.fate == "both" and rank.meter:
            rank.fate = "dead"
            rank.doomed = self.draw.randrange(4)
            if self.draw.random() < 0.5:
                self._died(rank)
            return
        if rank.meter is None:  # the client brings it back once, to read the counter's end
            self._launch(rank, restart=1)
        rank.end_ns = self.clock.now_ns()
        if self.disk.full:
            self.blind.append((self._saved_ns(rank.end_ns), rank.end_ns))
            self._forget(rank)
        stop: dict[str, Any] = {"state": "completed", "mono_ns": self.clock.mono_ns()}
        self._close(rank, {"state": "killed"} if rank.fate == "eof" else stop)
        rank.meter = rank.back_at_ns = None
        self.clients.pop(100 + rank.number, None)

    def _close(self, rank: Rank, stop: dict[str, Any]) -> None:
        for _ in range(2):
            meter = rank.meter
            assert meter is not None
            self._read(rank)
            if self._mortal(rank, lambda meter=meter: meter.close(stop)):
                meter.release()
                rank.closed_ns = self.clock.now_ns()
                return
            if rank.fate == "eof":  # nobody is left to bring it back
                self._gone(rank)
                return
            self._launch(rank, restart=1)

    def _upload(self) -> None:
        if self.ranks:
            self.uploads.append(list(self.spool().lines()))

    def _jump(self) -> None:
        self.clock.jump_wall(self.draw.uniform(-7200, 7200))

    def _suspend(self) -> None:
        before_ns = self.clock.now_ns()
        self.clock.suspend(self.draw.uniform(1, 900))
        self.deaf.append([before_ns, self.clock.now_ns()])
        self._pass(self.clock.now_ns() + NS_PER_S // 10)

    def _fill(self) -> None:
        if not self.disk.full:
            self.disk.full = True
            self.deaf.append([self.clock.now_ns(), 10**20])

    def _room(self) -> None:
        if self.disk.full:
            self.disk.full = False
            self._heard()
