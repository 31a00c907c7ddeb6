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

from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.settings.launches import job_id
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.spool import SpoolFolder, discard
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
            discard(folder)
            story.deletions += 1


class Story(Rig):
    """One machine and one job, told from a seed; `step` is its number in a Slurm allocation."""

    def __init__(self, home: Path, seed: int, step: int = 0) -> None:
        draw = self.draw = Random(seed)
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
        self.sent = 0.0
        self.meter: JobMeter | None = None
        self.back_at_ns: int | None = None
        self.doomed: int | None = None
        self.died_ns = 0
        """When the meter died that nobody has brought back yet [ns]."""
        self.asleep: list[tuple[int, int]] = []
        self.unseen: dict[str, float] = {}
        """What was counted in runs of which the disk took no line yet, by their folder."""
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
            if rank.end_ns is None:
                self._end(rank)
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

    @property
    def asleep_s(self) -> float:
        """How long the machine slept while devices were reserved [s]."""
        both = [(max(a, c), min(b, d)) for a, b in self.asleep for c, d in self.spans()]
        return sum(max(0, end - start) for start, end in both) / NS_PER_S

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
            rank = Rank(number, fate)
            plan.append((start_s, lambda rank=rank: self._join(rank)))
            plan.append((end_s, lambda rank=rank: self._end(rank)))
            for _ in range(draw.choice([0, 1, 1, 2, 3]) if self.deadly else 0):
                plan.append((draw.uniform(start_s, end_s), self._doom))
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
        """Let time pass as the loop would; wake the meter, bring back one that died."""
        while True:
            now_ns = self.clock.now_ns()
            waits = [self.back_at_ns - now_ns] if self.back_at_ns is not None else []
            if self.meter:
                waits.append(self.meter.due_ns() - self.meter.timeline.now_ns())
            wait_ns = max(min(waits, default=10**15), 1000)
            if now_ns + wait_ns >= until_ns:
                self.clock.advance_ns(max(0, until_ns - now_ns))
                return
            self.clock.advance_ns(wait_ns + self.draw.randrange(2_000_000))
            if self.meter:
                self._tick()
            if self.back_at_ns is not None and self.clock.now_ns() >= self.back_at_ns:
                self._launch()

    def _tick(self) -> None:
        """Let the meter act, which may die of it or close the job."""
        meter = self.meter
        assert meter is not None
        self.disk.arm(self.doomed)
        try:
            meter.tick()
        except Death:
            self._died()
        finally:
            self.doomed = self.disk.deadly if self.meter else None
            self.disk.arm(None)
        if self.meter and meter.closed:
            meter.release()
            self.meter = None
            for rank in self.ranks:
                rank.closed_ns = rank.closed_ns or self.clock.now_ns()

    def _died(self) -> None:
        meter, self.meter, self.doomed = self.meter, None, None
        if meter is not None:
            self.kill(meter)
        now_ns = self.died_ns = self.clock.now_ns()
        if any(rank.end_ns is None for rank in self.ranks):
            self.back_at_ns = now_ns + round(10 ** self.draw.uniform(-1, 1.5) * NS_PER_S)
        else:
            self._all_gone()

    def _all_gone(self) -> None:
        """The job's processes and its meter are dead: what was not saved is not known."""
        ended_ns = max(rank.end_ns or 0 for rank in self.ranks)
        self.back_at_ns = None
        self.blind.append((self._saved_ns(min(ended_ns, self.died_ns or ended_ns)), ended_ns))
        for rank in self.ranks:
            rank.closed_ns = rank.closed_ns or ended_ns

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
        self.ranks.append(rank)
        was_closed = self.memory(self.job_id).closed
        folder = self.enter(rank.pid, self.role, job_id=self.job_id)
        if self.disk.full and was_closed:
            self.unseen[folder.path] = 0.0
        if self.meter is None and self.back_at_ns is None:
            self._launch()

    def _launch(self) -> None:
        self.back_at_ns, self.died_ns = None, 0
        if not self.disk.full:
            self._heard()
        path = self.memory(self.job_id).path
        pid = next(pid for at, pid in self.processes if at == path)
        before = any(
            rank.end_ns is None and rank.start_ns < self.clock.now_ns() for rank in self.ranks
        )
        self.restarts += before
        self.meter = self.start(pid=pid, job_id=self.job_id, role=self.role)

    def _count(self, rank: Rank) -> None:
        if rank.end_ns is not None or rank not in self.ranks:
            return
        amount = float(self.draw.randrange(1, 100))
        self.sent += amount
        pid = rank.pid
        if self.by_children.random() < 0.5:  # by a worker, perhaps a new one
            if not rank.children or self.by_children.random() < 0.3:
                rank.children += 1
                self.enter(pid + rank.children, "worker", job_id=self.job_id)
            pid += rank.children
        if (path := self.memory(self.job_id).path) in self.unseen:
            self.unseen[path] += amount
        self.count(amount, pid=pid, job_id=self.job_id)

    def _doom(self) -> None:
        if self.meter is None:
            return
        if self.draw.random() < 0.4:
            self._died()
        else:
            self.doomed = self.draw.randrange(6)

    def _end(self, rank: Rank) -> None:
        if rank.end_ns is not None:
            return
        rank.end_ns = self.clock.now_ns()
        for pid in range(rank.pid, rank.pid + rank.children + 1):
            self.clients.pop(pid, None)
        if rank.fate == "both" and self.meter:
            self.doomed = self.draw.randrange(4)
            if self.draw.random() < 0.5:
                self._died()
        if rank.fate == "stop":
            line = {"cmd": "stop", "state": "completed", "at_ns": rank.end_ns}
            self.processes[self.memory(self.job_id).path, rank.pid].append(line)
        is_last = all(other.end_ns is not None for other in self.ranks)
        if is_last and self.disk.full:
            self.blind.append((self._saved_ns(rank.end_ns), rank.end_ns))
        for _ in range(3):  # the last one that stops brings the meter back
            if is_last and rank.fate == "stop" and not (self.meter or rank.closed_ns):
                self._launch()
            if self.meter:
                self.meter.wake()
                self._tick()
        if is_last and not (rank.closed_ns or self.meter):
            self._all_gone()

    def _upload(self) -> None:
        if self.ranks:
            self.uploads.append(list(self.spool().lines()))

    def _jump(self) -> None:
        self.clock.jump_wall(self.draw.uniform(-7200, 7200))

    def _suspend(self) -> None:
        before_ns = self.clock.now_ns()
        self.clock.suspend(self.draw.uniform(1, 900))
        self.deaf.append([before_ns, self.clock.now_ns()])
        self.asleep.append((before_ns, self.clock.now_ns()))
        self._pass(self.clock.now_ns() + NS_PER_S // 10)

    def _fill(self) -> None:
        if not self.disk.full:
            self.disk.full = True
            self.deaf.append([self.clock.now_ns(), 10**20])

    def _room(self) -> None:
        if self.disk.full:
            self.disk.full = False
            if self.meter:
                self.unseen.pop(self.memory(self.job_id).path, None)
            self._heard()
