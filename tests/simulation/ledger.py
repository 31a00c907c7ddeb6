"""Independent bookkeeping: what lies on disks, what was acknowledged, what users did.

It reads lines as JSON and knows nothing of the code that it checks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.simulation.world import Machine, World

if TYPE_CHECKING:
    from tests.simulation.client import Client

TIMES = {"start", "end", "at", "since", "started_at", "ended_at"}
Identity = tuple[str, str, str, int]
"""Job, node, writer and sequence number."""


@dataclass
class Line:
    """A line that was whole on a disk; `certain` unless a power cut took it back.

    `of_server` is one that only the server still has: what a recovery makes of the rest that the
    power cut left is a repetition to it.
    """

    fields: dict[str, Any]
    machine: str
    certain: bool = True
    of_server: bool = False


@dataclass
class Job:
    """What is known of a job from outside."""

    job_id: str
    project: str
    zone: str
    clients: list[Client] = field(default_factory=list)
    deleted: bool | None = False
    """None after a request whose answer was lost."""
    corrected: dict[str, set[Any]] = field(default_factory=dict)
    """By field, the values that may hold: more than one after a lost answer."""


class Ledger:
    """The books of one world; `broken` lists what may not have happened."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lines: dict[Identity, Line] = {}
        self.acknowledged: set[Identity] = set()
        self.jobs: dict[str, Job] = {}
        self.heard_us: dict[str, int] = {}
        """When the last new line of a job arrived, by the server's clock [us]."""
        self.g_per_kwh: dict[str, set[float | None]] = {}
        """By zone, the intensity of its points; None too where they may not have been stored."""
        self.limits_kg: dict[str, set[float | None]] = {}
        """By project, the budgets that may hold; None for no budget."""
        self.broken: list[str] = []
        self.bodies: list[tuple[str, bytes]] = []
        """Uploads that were answered, to be sent again after the end."""

    def fails(self, text: str) -> None:
        """Note that something happened which may not: production code may catch an exception."""
        self.broken.append(text)
        self.world.log(f"BROKEN {text}")

    def on_disk(self, path: str, content: bytes) -> None:
        """Lines that lie in a journal now; a torn last one does not count."""
        if not path.endswith((".jsonl", ".open")) or self.world.machine is None:
            return
        for identity, fields in whole_lines(content):
            known = self.lines.get(identity)
            if known is not None and known.of_server:
                continue
            if known is not None and known.certain and known.fields != fields:
                self.fails(f"{identity} was written twice with different content")
            self.lines[identity] = Line(fields, self.world.machine.name)

    def after_power_cut(self, machine: Machine) -> None:
        """Only what is still on the disk, or was acknowledged, is certain."""
        there = {identity for path in _journals(machine.home) for identity in _lines_of(path)}
        for identity, line in self.lines.items():
            if line.machine == machine.name:
                line.certain = identity in there or identity in self.acknowledged
                line.of_server = line.certain and identity not in there

    def answered(self, job_id: str, body: bytes, answer: dict[str, Any]) -> None:
        """An upload was acknowledged: what was in it is the server's from now on."""
        refused = {item["line"] for item in answer["rejected"]}
        sent = body.split(b"\n")
        for number in sorted(refused):
            self.fails(f"line {number} refused: {answer['rejected'][0]} {sent[number - 1][:200]!r}")
        new = [identity for identity, _ in whole_lines(body)]
        # Another upload may have been stored and not answered: the server says how far it has all.
        up_to = {(job_id, a.get("node"), a["writer"]): a["seq"] for a in answer["acknowledged"]}
        had = [known for known in self.lines if known[3] <= up_to.get(known[:3], 0)]
        for identity in (*new, *had):
            self.acknowledged.add(identity)
            if line := self.lines.get(identity):
                line.of_server = line.of_server or not line.certain
                line.certain = True
        counted = answer["accepted"] + answer["duplicate"] + len(refused)
        if counted != len(new):
            self.fails(f"{len(new)} lines sent, {counted} answered for {job_id}")

    def deleting(self, folder: Path) -> None:
        """A folder is about to be deleted."""
        job = self.jobs.get(folder.parent.name)
        if job is None or job.deleted is not False:
            return
        for path in _journals(folder):
            for identity in _lines_of(path):
                if identity not in self.acknowledged:
                    self.fails(f"{identity} is deleted before it was acknowledged")

    def intervals(self, job_id: str) -> dict[tuple[str, str, str], list[Line]]:
        """Every interval of a job ever written, by node, device and start."""
        found: dict[tuple[str, str, str], list[Line]] = {}
        for (job, node, _, _), line in self.lines.items():
            if job == job_id and line.fields["type"] == "interval":
                key = node, line.fields["device_id"], line.fields["start"]
                found.setdefault(key, []).append(line)
        return found

    def uncertain(self, job_id: str) -> bool:
        """Whether a power cut took lines of the job, which may have arrived all the same."""
        return any(not line.certain for (job, *_), line in self.lines.items() if job == job_id)


def whole_lines(content: bytes) -> list[tuple[Identity, dict[str, Any]]]:
    """The whole records in a file or a body, without states."""
    found = []
    for line in content.split(b"\n")[:-1]:
        if line.startswith(b'{"v"'):
            fields = msgspec.json.decode(line)
            for name in fields.keys() & TIMES:
                whole, _, part = fields[name].removesuffix("Z").partition(".")
                fields[name] = f"{whole}.{part:0<6}Z"  # as documents have it
            identity = fields["job_id"], fields["node"], fields["writer"], fields["seq"]
            found.append((identity, fields))
    return found


def _journals(folder: Path) -> list[Path]:
    names = [os.path.join(at, name) for at, _, files in os.walk(folder) for name in files]
    return [Path(name) for name in sorted(names) if name.endswith((".jsonl", ".open"))]


def _lines_of(path: Path) -> list[Identity]:
    return [identity for identity, _ in whole_lines(path.read_bytes())]
