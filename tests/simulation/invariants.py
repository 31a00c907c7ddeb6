"""What must hold when everything has come to rest, by the ledger's own arithmetic."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import fsum, isclose
from typing import Any

from tests.simulation import budgets
from tests.simulation.client import Client
from tests.simulation.ledger import Job, Line
from tests.simulation.story import Story

J_PER_KWH = 3_600_000
EXACT = 1e-9


def check(story: Story) -> list[str]:
    """What does not hold; empty when all does."""
    judge = Judge(story)
    judge.judge()
    return story.ledger.broken


class Judge:
    """Asks the server through its API, and compares."""

    def __init__(self, story: Story) -> None:
        self.story, self.ledger, self.server = story, story.ledger, story.server
        self.fails = story.ledger.fails
        self.kept: dict[str, list[Line]] = {}
        """The intervals that stand, by job."""
        self.documents: dict[str, dict[str, Any]] = {}
        self.unknown: set[str] = set()
        """Jobs with a device of which no energy is known."""

    def judge(self) -> None:
        """Check every job, the months, and that nothing changes when all is sent again."""
        for job in self.ledger.jobs.values():
            self._job(job)
        self._months()
        if self.ledger.limits_kg:
            budgets.check(self)
        if self.story.draw.random() < 0.1:
            self._without_intervals()
        self._again()

    def _job(self, job: Job) -> None:
        path = f"/v1/jobs/{job.job_id}"
        known = any(key[0] == job.job_id for key in self.ledger.acknowledged)
        if job.deleted is not False or not known:
            answer = self.server.answer("GET", path, b"", {})
            status = answer.status if answer else None
            allowed = {True: (410,), None: (200, 404, 410), False: (404, 200)}[job.deleted]
            if status not in allowed:
                self.fails(f"{path} answers {status}, deleted={job.deleted}")
            if status != 200 or not known:
                return
        self._intervals(job)
        document = self.server.ask(f"{path}/report")
        if document is None:
            return
        self.documents[job.job_id] = document
        self._energy(job, document)
        self._counts(job, document)
        self._end(job, document)
        self._revisions(job, document)
        for row in document["intensity"]:
            known, shown = self.ledger.g_per_kwh.get(row["zone"]), row["g_per_kwh"]
            if known and None not in known and not any(isclose(shown, g or 0.0) for g in known):
                self.fails(f"{job.job_id}: {shown} g/kWh, imported {known}")
        for field, values in job.corrected.items():
            shown = _declared(document, field)
            if shown not in values and None not in values:
                self.fails(f"{job.job_id}: {field} is {shown!r}, corrected to {values}")

    def _intervals(self, job: Job) -> None:
        """Every interval that was written durably stands exactly once, as it was last written."""
        rows, cursor = [], ""
        while True:
            page = self.server.ask(f"/v1/jobs/{job.job_id}/intervals?limit=500{cursor}")
            if page is None:
                return
            rows += page["intervals"]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        stored = {(r["node"], r["device_id"], r["start"]): r for r in rows}
        if len(stored) != len(rows):
            self.fails(f"{job.job_id}: {len(rows) - len(stored)} intervals stand twice")
        written = self.ledger.intervals(job.job_id)
        for key in stored.keys() - written.keys():
            self.fails(f"{job.job_id}: interval {key} was never written")
        kept = []
        for key, lines in sorted(written.items()):
            certain = [line for line in lines if line.certain]
            row = stored.get(key)
            if row is None:
                if certain:
                    self.fails(f"{job.job_id}: interval {key} is lost")
                continue
            least = max((line.fields["end"] for line in certain), default="")
            fitting = [line for line in lines if _same(line.fields, row)]
            if not fitting or row["end"] < least:
                text = [(line.fields["end"], line.fields["energy_j"]) for line in lines]
                self.fails(f"{job.job_id}: {key} is {row['end']} {row['energy_j']}, of {text}")
                continue
            kept.append(fitting[0])
        self.kept[job.job_id] = kept

    def _energy(self, job: Job, document: dict[str, Any]) -> None:
        """Energy of job and devices: the sum of the lines, and what the devices drew."""
        kept = self.kept.get(job.job_id, [])
        whole_j = fsum(line.fields["energy_j"] for line in kept)
        self._drawn(job, kept)
        by_device: dict[str, list[float]] = defaultdict(list)
        for line in kept:
            by_device[line.fields["device_id"]].append(line.fields["energy_j"])
        for device in document["devices"]:
            if device["class"] != "host":
                own = by_device.pop(device["device_id"], [])
                self._figure(f"{job.job_id} {device['device_id']}", device["energy_j"], own)
                if not own:  # nothing unknown becomes 0
                    self.unknown.add(job.job_id)
        if by_device:
            self.fails(f"{job.job_id} does not show {sorted(by_device)}")
        if job.job_id in self.unknown:
            if document["energy_kwh"] is not None:
                self.fails(f"{job.job_id}: energy is known, that of a device is not")
            return
        found = document["energy_kwh"]
        self._equal(f"{job.job_id} energy", (found or {"value": 0})["value"] * J_PER_KWH, whole_j)
        self._days(job, kept, document)

    def _days(self, job: Job, kept: list[Line], document: dict[str, Any]) -> None:
        days: dict[str, list[float]] = defaultdict(list)
        for line in kept:
            for day, joules in _by_day(line.fields):
                days[day].append(joules)
        shown_days = {d["day"]: d["energy_kwh"] for d in document["days"] if d["energy_kwh"]}
        for day in shown_days.keys() | days.keys():
            shown = shown_days[day]["value"] if day in shown_days else 0.0
            self._equal(f"{job.job_id} on {day}", shown * J_PER_KWH, fsum(days[day]))

    def _drawn(self, job: Job, kept: list[Line]) -> None:
        """What the devices drew between the first reading and the last that was saved; a power cut
        may take what was saved and not synced (`Meter.kept_uj`).
        """
        least: dict[str, int] = defaultdict(int)
        most: dict[str, int] = defaultdict(int)
        for client in job.clients:
            for name in client.first_uj:
                least[name] += client.least_uj(name)
                most[name] += client.most_uj(name)
        for name in most:
            journaled = [ln.fields["energy_j"] for ln in kept if ln.fields["device_id"] == name]
            slack_j = 1e-6 * (len(journaled) + 1)  # each line is rounded to a microjoule
            low, high = least[name] / 1e6 - slack_j, most[name] / 1e6 + slack_j
            if not low <= fsum(journaled) <= high:
                self.fails(f"{job.job_id} {name}: {fsum(journaled)} J of {low} to {high} J drawn")

    def _counts(self, job: Job, document: dict[str, Any]) -> None:
        shown = {row["unit"]: row["count"] for row in document["sci"]}.get("image", 0.0)
        most = sum(client.counted for client in job.clients)
        least = sum(_certain_count(client) for client in job.clients)
        if not least <= shown <= most or (not _may_be_more(job) and shown != least):
            self.fails(f"{job.job_id}: R is {shown}, counted {most}, saved {least}")

    def _end(self, job: Job, document: dict[str, Any]) -> None:
        """The rules of docs/journal.md, "How a job ends"."""
        if document["provisional"] or document["state"] == "running":
            self.fails(f"{job.job_id} still runs")
            return
        if self.ledger.uncertain(job.job_id):
            return
        expected = _expected_end(job, self.ledger.lines)
        shown = document["state"], document["exit_code"]
        if expected is not None and shown != expected:
            self.fails(f"{job.job_id} is {shown}, not {expected}")

    def _revisions(self, job: Job, document: dict[str, Any]) -> None:
        numbers = self.server.stored_revisions(job.job_id)
        if numbers != list(range(1, len(numbers) + 1)) or document["revision"] != len(numbers):
            self.fails(f"{job.job_id}: revisions {numbers}, shown {document['revision']}")

    def _months(self) -> None:
        """Months are complete, add up to the jobs, and each job is in those of its days."""
        by_month: dict[str, list[float]] = defaultdict(list)
        jobs_of: dict[str, set[str]] = defaultdict(set)
        for job_id, document in self.documents.items():
            for day in document["days"]:
                jobs_of[day["day"][:7]].add(job_id)
            for line in self._known(job_id):
                for day, joules in _by_day(line.fields):
                    by_month[day[:7]].append(joules)
        year_j = []
        for month in sorted(jobs_of):
            document = self.server.ask(f"/v1/reports/monthly/{month}.json")
            if document is None:
                continue
            energy = (document["totals"]["energy_kwh"] or {"value": 0})["value"] * J_PER_KWH
            year_j.append(energy)
            self._equal(f"month {month}", energy, fsum(by_month[month]))
            self._carbon(month, document["totals"])
            if document["totals"]["jobs"] != len(jobs_of[month]):
                self.fails(f"month {month} has {document['totals']['jobs']} of {jobs_of[month]}")
            pending = document["jobs_running"]["jobs"] + document["jobs_unscored"]["jobs"]
            if not document["complete"] or pending:
                self.fails(f"month {month} is not complete, {pending} jobs pending")
        whole = [ln.fields["energy_j"] for job_id in self.documents for ln in self._known(job_id)]
        self._equal("the months", fsum(year_j), fsum(whole))

    def _without_intervals(self) -> None:
        """Scores and months stay when intervals were kept long enough, and when jobs change."""
        self.server.work("retention")
        if left := self.server.stored_intervals():
            self.fails(f"{left} intervals are kept for ever")
        body, headers = b'{"name":"later"}', {"Content-Type": "application/json"}
        for job_id, before in self.documents.items():
            self.server.answer("PATCH", f"/v1/jobs/{job_id}", body, headers)
            after = self.server.ask(f"/v1/jobs/{job_id}/report") or {}
            for field in ("energy_kwh", "total_g", "sci", "days", "devices"):
                if after.get(field) != before[field]:
                    self.fails(f"{job_id}: {field} is another without intervals")
            if after.get("name") != "later":
                self.fails(f"{job_id} is named {after.get('name')!r} after its correction")
        self._months()

    def _carbon(self, month: str, totals: dict[str, Any]) -> None:
        """O and M of a month are those of its jobs' days, as of their newest revisions."""
        days = [d for doc in self.documents.values() for d in doc["days"] if d["day"][:7] == month]
        for term in ("operational_g", "embodied_g"):
            grams = fsum(day[term]["value"] for day in days if day[term])
            shown = (totals[term] or {"value": 0.0})["value"]
            if not isclose(shown, grams, rel_tol=EXACT, abs_tol=1e-9):
                self.fails(f"month {month}: {term} is {shown}, that of its jobs {grams}")

    def _known(self, job_id: str) -> list[Line]:
        """The intervals of a job whose energy is known: a month sums no other."""
        return [] if job_id in self.unknown else self.kept.get(job_id, [])

    def _again(self) -> None:
        """Uploads that arrive once more change nothing."""
        before = self.server.stored_jobs()
        for job_id, body in self.ledger.bodies[-1:]:
            headers = {"Content-Type": "application/x-ndjson"}
            path = f"/v1/jobs/{job_id}/records"
            answer = self.server.answer("POST", path, body, headers)
            if answer is not None and answer.status == 200 and answer.document["accepted"]:
                self.fails(f"{job_id}: {answer.document['accepted']} known lines count as new")
        self.server.work("score-pending")
        after = self.server.stored_jobs()
        if before != after:
            self.fails(f"lines that were known made revisions: {before} -> {after}")

    def _figure(self, what: str, shown: dict[str, Any] | None, joules: list[float]) -> None:
        if (shown is None) != (not joules):
            self.fails(f"{what}: {shown}, by the ledger {joules} J")
        elif shown is not None:
            self._equal(what, shown["value"], fsum(joules))

    def _equal(self, what: str, shown: float, expected: float) -> None:
        if not isclose(shown, expected, rel_tol=EXACT, abs_tol=1e-9):
            self.fails(f"{what}: {shown!r} J, by the ledger {expected!r} J")


def _same(fields: dict[str, Any], row: dict[str, Any]) -> bool:
    return bool(fields["end"] == row["end"] and fields["energy_j"] == row["energy_j"])


def _by_day(fields: dict[str, Any]) -> list[tuple[str, float]]:
    """Joules of an interval by UTC day, divided by time."""
    start, end = (datetime.fromisoformat(fields[name]) for name in ("start", "end"))
    parts = []
    at = start
    while at < end:
        midnight = datetime(at.year, at.month, at.day, tzinfo=UTC) + timedelta(days=1)
        until = min(midnight, end)
        share = Fraction((until - at) // timedelta(microseconds=1)) / Fraction(
            (end - start) // timedelta(microseconds=1)
        )
        parts.append((f"{at:%Y-%m-%d}", float(Fraction(fields["energy_j"]) * share)))
        at = until
    return parts


def _may_be_more(job: Job) -> bool:
    """Whether more may be in the journals than is certain: a power cut, or death in a write."""
    clients = job.clients
    return any(c.cut or c.writing or c.forgotten or not c.has_saved for c in clients)


def _certain_count(client: Client) -> float:
    """What is in memory counts, whoever dies, once a meter has said where that is."""
    if client.cut:
        return 0.0
    kept = client.has_saved and not client.forgotten
    return client.counted if kept else client.saved_count


def _expected_end(job: Job, lines: dict[Any, Line]) -> tuple[str, int | None] | None:
    """State and exit code by the fates of the clients and the times in their end lines."""
    ends: dict[str, str] = {}
    for (job_id, _, writer, _), line in lines.items():
        if job_id == job.job_id and line.fields["type"] == "end":
            ends[writer] = line.fields["ended_at"]
    last: dict[str, Client] = {}
    for client in job.clients:
        if client.writers and any(_wrote(job, writer, lines) for writer in client.writers):
            last[client.node] = client
    bad, codes = [], []
    for client in last.values():
        when = max((ends[w] for w in client.writers if w in ends), default="")
        if client.state in ("failed", "killed"):
            bad.append((when, client.state, client.exit_code))
        codes.append((when, client.exit_code))
    if not last:
        return None
    if bad:
        return min(bad)[1:] if len({b[0] for b in bad}) == len(bad) else None
    if any(client.state == "lost" for client in last.values()):
        return "lost", None
    return "completed", 0


def _wrote(job: Job, writer: str, lines: dict[Any, Line]) -> bool:
    return any(
        key[0] == job.job_id and key[2] == writer and line.fields["type"] == "job"
        for key, line in lines.items()
    )


def described(document: Any) -> str:
    """A document in a line."""
    return json.dumps(document)[:300]


def _declared(document: dict[str, Any], field: str) -> Any:
    return document["method"]["pue"]["value"] if field == "pue" else document[field]
