"""Budgets in a story: who sets them, who receives their alerts, and what must hold of both."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import fsum, isclose
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from gramwatt.service import notifications
from gramwatt.service.config import AlertSettings
from tests.simulation.surroundings import SCENE
from tests.simulation.world import NS_PER_S, Death

if TYPE_CHECKING:
    from tests.simulation.invariants import Judge
    from tests.simulation.story import Story

HOST, SECRET = "alerts.test", "of the simulation"
SETTINGS = AlertSettings(webhook_secret=SECRET, webhook_hosts=(HOST,))
CLAIM_NS = 120 * NS_PER_S
"""For so long nobody else sends a message that is being sent (docs/budgets.md)."""
Reached = tuple[str, str, float]
"""Project, month and threshold [percent]."""


class Receiver:
    """What listens behind the webhook: it remembers every message that arrived."""

    def __init__(self, story: Story) -> None:
        self.world, self.ledger, self.server = story.world, story.ledger, story.server
        self.received: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """Messages by their id, as often as they came."""
        self.failing = True
        """Whether it may refuse a message, or take one and not answer."""
        self.changing: list[str] = []
        self.set: Counter[str] = Counter()
        """Projects whose budgets are being changed."""
        self._begun_ns: dict[str, int] = {}
        """When the sending of a message began that has not ended, by the server's clock."""

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        """The status of the answer; raises OSError where none arrives."""
        world, name = self.world, headers["Gramwatt-Delivery"]
        now_ns = world.now_ns + self.server.skew_ns
        if 0 <= now_ns - self._begun_ns.get(name, -CLAIM_NS) < CLAIM_NS:
            self.ledger.fails(f"alert {name} is sent by two at once")
        self._begun_ns[name] = now_ns
        try:
            return self._answer(name, body, headers)
        finally:
            del self._begun_ns[name]

    def _answer(self, name: str, body: bytes, headers: dict[str, str]) -> int:
        world = self.world
        self._wait(world.draw.uniform(0.01, 5))
        if self._chance(0.3):
            world.fault("loss", f"alert {name}")
            raise ConnectionRefusedError("nobody listens")
        if self._chance(0.1):
            return 503
        self._check(name, body, headers)
        self.received[name].append(json.loads(body))
        world.log(f"alert {name} arrives")
        self._wait(world.draw.uniform(0.01, 5))
        if self._chance(0.2):
            world.fault("answer lost", f"alert {name}")
            raise TimeoutError("timed out")
        return 204

    def _chance(self, share: float) -> bool:
        return self.failing and self.world.draw.random() < share

    def _wait(self, duration_s: float) -> None:
        self.world.pass_s(duration_s)
        if self.world.process is not None and self.world.process.dead:
            raise Death

    def _check(self, name: str, body: bytes, headers: dict[str, str]) -> None:
        stamp, _, shown = headers["Gramwatt-Signature"].partition(",v1=")
        signed = stamp.removeprefix("t=").encode() + b"." + body
        if shown != hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest():
            self.ledger.fails(f"alert {name} is not signed")
        message = json.loads(body)
        share = message["spent_kg"]["value"] / message["limit_kg"]
        reached = message["threshold_percent"] <= share * 100 * (1 + 1e-9)
        if message["id"] != name or not reached or not isclose(share, message["spent_share"]):
            self.ledger.fails(f"alert {name} says {message}")


class _Connection:
    """What production code opens to send a webhook."""

    late = False

    def __init__(self, host: str, port: int, address: str) -> None:
        self.status = 0
        self._to = host, port, address

    def connect(self) -> None:
        """The receiver is there."""

    def cut(self) -> None:
        """It never takes too long."""

    def request(self, _method: str, _path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send, and wait for the answer."""
        self.status = SCENE.receiver.take(body, headers)

    def getresponse(self) -> _Connection:
        """The answer."""
        return self

    def getheader(self, _name: str) -> None:
        """It does not say when to try again."""

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def received() -> Iterator[None]:
    """Webhooks go to the receiver of the scene."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(notifications, "_CheckedHttps", _Connection))
        address = ("203.0.113.5", 443)
        stack.enter_context(patch.object(notifications, "checked_address", lambda *_: address))
        yield


def plan(story: Story) -> None:
    """Budgets that are set, changed and removed while the story runs, and their tasks."""
    draw, world, length_s = story.draw, story.world, story.length_s
    projects = sorted({job.project for job in story.ledger.jobs.values()})
    for project in (*projects, *draw.choice([(), (), ("renamed",)])):
        for _ in range(draw.choice([1, 1, 2])):
            world.after(draw.uniform(0, length_s * 2), partial(_set, story, project))
        if draw.random() < 0.1:
            world.after(draw.uniform(0, length_s * 3), partial(_remove, story, project))
    for _ in range(draw.choice([1, 2])):  # when some jobs have ended
        moment_s = draw.uniform(length_s * 0.7, length_s * 3)
        world.after(moment_s, partial(story.server.work, "budgets"))
        for wait_s in (1.0, draw.uniform(0, 100)):
            world.after(moment_s + wait_s, partial(story.server.work, "outbox"))


def _set(story: Story, project: str) -> None:
    draw = story.draw
    limit_kg = 10 ** draw.uniform(-6, -3)
    thresholds = draw.choice([[50.0, 80.0, 100.0], [1.0, 10.0], [100.0]])
    body = {"project": project, "limit_kg": limit_kg, "thresholds": thresholds}
    sent = json.dumps({**body, "webhook": f"https://{HOST}/hook"}).encode()
    _change(story, project, limit_kg, "POST", "/v1/budgets", sent)


def _remove(story: Story, project: str) -> None:
    _change(story, project, None, "DELETE", f"/v1/budgets?project={project}", b"")


def _change(
    story: Story, project: str, limit_kg: float | None, method: str, path: str, sent: bytes
) -> None:
    """Ask for a change, and note which budgets may hold: of two changes at once either."""
    limits, going = story.ledger.limits_kg, story.receiver.changing
    before, nested = limits.get(project), project in going
    going.append(project)
    answer = story.server.answer(method, path, sent, {"Content-Type": "application/json"})
    going.remove(project)
    status = 0 if answer is None else answer.status
    story.receiver.set[project] += not 400 <= status < 500
    if status == 200 and not nested and limits.get(project) is before:
        limits[project] = {limit_kg}
    elif not 400 <= status < 500:  # it may have been stored, and then not answered
        limits[project] = {*limits.get(project, {None}), limit_kg}


def come_to_rest(story: Story) -> None:
    """Look at the budgets a last time while their months are looked at; all reached has alerts."""
    month = f"{story.server.clock():%Y-%m}"  # which may be over before it is asked about
    story.server.work("budgets")
    story.server.work("outbox")
    story.receiver.failing = False
    asked = story.server.ask(f"/v1/budgets?month={month}")
    for row in (asked or {"budgets": []})["budgets"]:
        known = {alert["threshold"] for alert in row["alerts"]}
        share = row["spent_share"]
        for threshold in row["thresholds"] if share is not None else ():
            if share * 100 >= threshold and threshold not in known:
                story.ledger.fails(f"{row['project']}: no alert for {threshold} % of {share:.1%}")


def check(judge: Judge) -> None:
    """Budgets are as they were set, as far spent as their jobs say, and their alerts were sent."""
    alerts = _alerts(judge)
    shown: set[Reached] = set()
    limits: dict[str, float] = {}
    months = {day["day"][:7] for doc in judge.documents.values() for day in doc["days"]}
    for month in sorted(months):
        for row in (judge.server.ask(f"/v1/budgets?month={month}") or {"budgets": []})["budgets"]:
            project = row["project"]
            limits[project] = row["limit_kg"]
            shown |= {(project, month, alert["threshold"]) for alert in row["alerts"]}
            _spent(judge, project, month, row)
    if months:
        for project, allowed in judge.ledger.limits_kg.items():
            found = limits.get(project)
            if not any(_alike(found, limit_kg) for limit_kg in allowed):
                judge.fails(f"the budget of {project} is {found} kg, set to {allowed}")
    listed = {key for key in alerts if key[0] in limits and key[1] in months}
    # Shown are alerts of the budget as it is set now, sent also those of the one before it.
    once = {key for key in listed if judge.story.receiver.set[key[0]] == 1}
    if not once <= shown <= listed:
        judge.fails(f"alerts {sorted(shown)} are shown, and {sorted(listed)} sent")


def _alerts(judge: Judge) -> set[Reached]:
    """What was reached, by the outbox: sent, once as a message, and received under one id."""
    arrived: dict[Reached, set[str]] = defaultdict(set)
    for name, messages in judge.story.receiver.received.items():
        for message in messages:
            key = message["project"], message["month"], message["threshold_percent"]
            arrived[key].add(name)
            if message != messages[0]:
                judge.fails(f"alert {name} says {message}, and {messages[0]}")
    for key, names in arrived.items():
        if len(names) > judge.story.receiver.set[key[0]]:
            judge.fails(f"the alert {key} came as {sorted(names)}")
    page = judge.server.ask("/v1/outbox?limit=200") or {"messages": []}
    rows = [((row["project"], row["month"], row["threshold"]), row) for row in page["messages"]]
    made = Counter(key for key, _ in rows)
    if made != {key: len(names) for key, names in arrived.items()}:
        judge.fails(f"messages {sorted(key for key, _ in rows)}, received {sorted(arrived)}")
    for key, row in rows:
        if row["state"] != "sent":
            judge.fails(f"the alert {key} is {row['state']}: {row['error']}")
    return set(made)


def _spent(judge: Judge, project: str, month: str, row: dict[str, Any]) -> None:
    """A budget is spent by the days of its jobs, of which all terms are known."""
    documents = [doc for doc in judge.documents.values() if doc["project"] == project]
    days = [day for doc in documents for day in doc["days"] if day["day"][:7] == month]
    terms = [day[name] for day in days for name in ("operational_g", "embodied_g")]
    if None in terms or judge.unknown & {doc["job_id"] for doc in documents}:
        return
    shown = row["spent_kg"]["value"] if row["spent_kg"] else 0.0
    spent_kg = fsum(term["value"] for term in terms) / 1000
    if not isclose(shown, spent_kg, rel_tol=1e-9, abs_tol=1e-12):
        judge.fails(f"{project} in {month}: {shown} kg spent, its jobs emitted {spent_kg}")


def _alike(one: float | None, other: float | None) -> bool:
    return one is other or (one is not None and other is not None and isclose(one, other))
