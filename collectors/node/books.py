"""A journal for each job of the node, and for each day's rest.

Each is one writer, as a meter is (docs/journal.md). Their open intervals are kept in the agent's
one state file too, which is written first: so a kill between two files doubles nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gramwatt import __version__
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.projects import project_of_tags
from gramwatt.collectors.journal.intervals import DAY_S, Interval, Ledger, Schedule, moment
from gramwatt.collectors.journal.spool import remember_server, spool_root
from gramwatt.collectors.journal.writer import Journal
from gramwatt.collectors.node.division import NOBODY, Claim
from gramwatt.collectors.node.owners import Owner
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.journal.records import DeviceRecord, EndRecord, IntervalRecord, JobRecord

GONE_NS = 60 * NS_PER_S
"""A job without a device for this long has ended, when it last had one."""
DAY_KEPT_NS = 120 * NS_PER_S
"""How long a day's rest stays open for readings that span midnight."""
SHARE_STEP = 0.02
"""A device's record is written again when the job's mean share of it has moved so much."""
SMALLEST_SHARE = 1e-6
NOTICES_MOST = 32


@dataclass(slots=True)
class Shared:
    """Facts that all journals of the node share."""

    home: Path
    node: str
    boot: str
    machine: str
    config: Config
    log: Callable[[str], None]
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The fields of each device's record, as its group describes it."""
    standing: list[str] = field(default_factory=list)
    """Notices that hold for every job."""


class OwnedJob:
    """One job's journal on this node."""

    def __init__(
        self, shared: Shared, owner: Owner, start_ns: int, known: Mapping[str, Any] | None = None
    ) -> None:
        """`known` is its state in the agent before this one, from which it goes on."""
        self.owner, self.start_ns = owner, int(known["start_ns"]) if known else start_ns
        self.last_ns = int(known["last_ns"]) if known else start_ns
        self.writer = os.urandom(6).hex()
        self.notices = list(known["notices"]) if known else list(shared.standing)
        self._shared = shared
        self._schedule = Schedule(self.start_ns)
        self._reserved_s: dict[str, float] = dict(known["reserved_s"]) if known else {}
        self._recorded: dict[str, float] = {}
        self.ledgers: dict[str, Ledger] = {}
        folder = spool_root(shared.home) / owner.job_id / shared.node
        base = {"job_id": owner.job_id, "node": shared.node, "writer": self.writer}
        self._journal = Journal(folder, base, shared.log)
        self._journal.open()
        if shared.config.server:
            remember_server(folder, shared.config.server)
        self._put_job(known["writer"] if known else None)
        for device_id, opened in (known["open"] if known else {}).items():
            self._ledger(device_id).open = Interval.restored(opened)

    def enter(
        self, claim: Claim, span: tuple[int, int], energy_j: float, kind: str, power_w: float | None
    ) -> None:
        """Record the job's energy [J] of a device over a span [ns]."""
        name, idle = claim.device_id, claim.part.idle
        span_s = (span[1] - span[0]) / NS_PER_S
        self._reserved_s[name] = self._reserved_s.get(name, 0.0) + idle * span_s
        self.last_ns = max(self.last_ns, span[1])
        self._ledger(name).add(*span, energy_j, kind, power_w)

    def notify(self, text: str) -> None:
        """Leave a notice with the job, once."""
        if text not in self.notices and len(self.notices) < NOTICES_MOST:
            self.notices.append(text)

    def describe(self, owner: Owner) -> None:
        """Journal what is known of the job now, where that is more than before."""
        if owner.tags != self.owner.tags:
            self.owner = owner
            self._put_job(None)

    def state(self) -> dict[str, Any]:
        """Return what the next agent needs to go on, JSON-ready."""
        opened = {name: one.open.state() for name, one in self.ledgers.items() if one.open}
        owner = self.owner
        return {
            "owner": [
                *(owner.job_id, owner.name, dict(owner.tags), dict(owner.scheduler), owner.group)
            ],
            "writer": self.writer,
            "start_ns": self.start_ns,
            "last_ns": self.last_ns,
            "reserved_s": self._reserved_s,
            "notices": self.notices,
            "open": opened,
        }

    def save(self) -> None:
        """Write the open file, then the final lines (docs/journal.md, "Order of writing")."""
        self._put_devices()
        spans = [(name, one.open) for name, one in self.ledgers.items()]
        opened = [iv.fields(name) for name, iv in spans if iv and iv.end_ns > iv.start_ns]
        state = {
            "boot": self._shared.boot,
            "machine": self._shared.machine,
            "leader": True,
            "start_ns": self.start_ns,
            "offset_ns": 0,
            "now_ns": self.last_ns,
            "notices": self.notices,
        }
        if self._journal.write_open(state, opened):
            self._journal.flush()

    def end(self, ended_ns: int) -> None:
        """Close the job's journal at a moment [ns]; nobody here has seen how it ended."""
        self._schedule.end_ns = ended_ns
        self.close_open()
        if not self.owner.job_id.startswith("rest-"):
            self.notify(f"end-unseen: {CODES['end-unseen']}")
        self._put_devices(final=True)
        self._journal.put(
            EndRecord,
            ended_at=moment(max(ended_ns, self.start_ns)),
            state="completed",
            notices=tuple(self.notices),
        )
        self.save()
        self._journal.close()

    def close_open(self) -> None:
        """Make final lines of the open intervals."""
        for ledger in self.ledgers.values():
            ledger.close()

    def release(self) -> None:
        """Give up the lock: the next agent goes on."""
        self._journal.close()

    def _ledger(self, device_id: str) -> Ledger:
        if device_id not in self.ledgers:
            self.ledgers[device_id] = Ledger(device_id, self._schedule, self._emit)
        return self.ledgers[device_id]

    def _emit(self, device_id: str, interval: Interval) -> None:
        self._journal.put(IntervalRecord, **interval.fields(device_id))

    def _put_devices(self, *, final: bool = False) -> None:
        """Put the record of each device again whose mean share has changed."""
        lasted_s = (self.last_ns - self.start_ns) / NS_PER_S
        for name in self.ledgers:
            share = self._reserved_s.get(name, 0.0) / lasted_s if lasted_s > 0 else 1.0
            share = 1.0 if share > 1 - 1e-6 else max(SMALLEST_SHARE, round(share, 9))
            before = self._recorded.get(name, 0.0)
            fields = self._shared.devices.get(name)
            if (
                fields is None
                or share == before
                or (not final and abs(share - before) < SHARE_STEP)
            ):
                continue
            self._recorded[name] = share
            kind = fields["kind"]
            kind = "attributed" if share < 1 and kind == "measured" else kind
            self._journal.put(DeviceRecord, **{**fields, "share": share, "kind": kind})

    def _put_job(self, resumes: str | None) -> None:
        config, owner = self._shared.config, self.owner
        self._journal.put(
            JobRecord,
            started_at=moment(self.start_ns),
            resumes=resumes,
            project=project_of_tags(os.environ, owner.tags) or config.project,
            name=owner.name,
            kind=config.kind,
            units=tuple(config.units),
            zone=config.zone,
            region=config.region,
            pue=config.pue,
            tags={**owner.tags, **config.tags},
            reporter="node",
            versions={"gramwatt": __version__},
            scheduler=dict(owner.scheduler),
        )


class NodeBooks:
    """All jobs of the node that have not ended."""

    def __init__(self, shared: Shared, known: Sequence[Mapping[str, Any]]) -> None:
        """`known` is the state of the agent before."""
        self.shared = shared
        self.jobs: dict[str, OwnedJob] = {}
        for state in known:
            owner = Owner(*state["owner"])
            self.jobs[owner.job_id] = OwnedJob(shared, owner, state["start_ns"], state)

    def enter(
        self, claim: Claim, span: tuple[int, int], energy_j: float, kind: str, power_w: float | None
    ) -> None:
        """Record a job's energy [J] of a device over a span [ns]; of NOBODY: the node's rest."""
        owner = rest(self.shared.node, span[0]) if claim.owner == NOBODY else claim.owner
        job = self.jobs.get(owner.job_id)
        if job is None:
            job = self.jobs[owner.job_id] = OwnedJob(self.shared, owner, span[0])
        job.enter(claim, span, energy_j, kind, power_w)

    def ledger(self, owner: Owner, device_id: str) -> Ledger | None:
        """Return a job's own ledger of a device; None before it has energy of it."""
        job = self.jobs.get(owner.job_id)
        return job.ledgers.get(device_id) if job else None

    def notify(self, text: str, *, standing: bool) -> None:
        """Leave a notice with the jobs of now, and of what is to come if it is `standing`."""
        if standing and text not in self.shared.standing:
            self.shared.standing.append(text)
        for job in self.jobs.values():
            job.notify(text)

    def end_gone(self, now_ns: int, alive: set[str]) -> None:
        """End the jobs that had no device for a while, and the rest of past days [ns]."""
        today = rest(self.shared.node, now_ns).job_id
        for name, job in list(self.jobs.items()):
            if name.startswith("rest-"):
                midnight_ns = (job.start_ns // _DAY_NS + 1) * _DAY_NS
                if name != today and now_ns - midnight_ns > DAY_KEPT_NS:
                    self.jobs.pop(name).end(midnight_ns)
            elif name not in alive and now_ns - job.last_ns > GONE_NS:
                self.jobs.pop(name).end(job.last_ns)

    def state(self) -> list[dict[str, Any]]:
        """Return what the next agent needs to go on, JSON-ready."""
        return [job.state() for job in self.jobs.values()]


_DAY_NS = DAY_S * NS_PER_S


def rest(node: str, at_ns: int) -> Owner:
    """Return the owner of what nobody bears at a moment [ns]: a job a day, so that days close."""
    day = moment(at_ns).strftime("%Y%m%d")
    tags = {"gramwatt": "rest"}
    return Owner(f"rest-{node}-{day}", f"rest of node {node}", tags)
