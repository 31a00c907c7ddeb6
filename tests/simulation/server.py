"""The server process over its store: it answers, does its periodic work, dies and comes back.

Every process of the story is a new `Service`; the Flask app and the compiled statements stay, and
each seed begins with a copy of one migrated database.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import sqlalchemy as sa
from flask import Flask
from msgspec import to_builtins
from sqlalchemy.engine import Engine

from gramwatt.service.access.keys import create_key
from gramwatt.service.api.access import EXTENSION
from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.jobs import ingest as ingest_module
from gramwatt.service.months import advice
from gramwatt.service.store import database
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks import runs
from gramwatt.service.tasks.leader import beat, expect
from gramwatt.service.tasks.rescoring import rescore_on_new_factors
from gramwatt.service.tasks.scheduler import Scheduler
from gramwatt.service.tasks.table import TASKS
from tests.simulation import budgets
from tests.simulation.ledger import Ledger
from tests.simulation.surroundings import SCENE, Random
from tests.simulation.world import Death, Machine, Process, World
from tests.simulation.wsgi import Answer, call, environ_of

ADDRESS = "http://server.test"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ERRORS: dict[str, Callable[[], Exception]] = {
    "deadlock": lambda: psycopg.errors.DeadlockDetected("deadlock detected"),
    "serialization": lambda: psycopg.errors.SerializationFailure("could not serialize access"),
    "database away": lambda: psycopg.OperationalError("server closed the connection unexpectedly"),
    "locked": lambda: sqlite3.OperationalError("database is locked"),
}


CONFLICTS = ("deadlock", "serialization")
KEPT = timedelta(days=30)
"""How long intervals are kept: longer than a story, and over when it is judged."""


class Waits:
    """`time` of the store: it waits in the story."""

    monotonic = staticmethod(time.monotonic)

    def sleep(self, duration_s: float) -> None:
        """Wait [s]."""
        SCENE.plant.server.wait(duration_s)


class Plant:
    """What outlives the seeds of a process: the app, the engine, and an empty migrated store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "gramwatt.db"
        self.template = folder / "template.db"
        self.synced = folder / "synced.db"
        self.silent_after_us = 0
        self.engine: Engine | None = None
        self._side: sqlite3.Connection | None = None
        self.server: Server | None = None
        self._make_engine = database._engine
        self._service = self.open(lambda: EPOCH)
        upgrade(self._service.store)
        self.app: Flask = create_app(service=self._service)
        self.key = create_key(self._service, "simulation", "admin").key
        rescore_on_new_factors(self._service)  # there is nothing to score
        self._service.store.close()
        shutil.copy(self.path, self.template)

    def open(self, clock: Callable[[], datetime]) -> Service:
        """A service over the store, with the engine of those before."""
        with patch.object(database, "_engine", self._engine):
            config = ServiceConfig(
                home=self.folder / "server",
                database_url=sqlite_url(self.path),
                keep_intervals={"": KEPT},
                alerts=budgets.SETTINGS,
                clock=clock,
            )
            self.silent_after_us = config.silent_after // timedelta(microseconds=1)
            return Service.open(config)

    def beside(self) -> sqlite3.Connection:
        """A connection of the simulation's own, beside those of the engine; it commits at once."""
        if self._side is None:
            self._side = sqlite3.connect(self.path, isolation_level=None)
        return self._side

    def reset(self, content: Path | None = None) -> None:
        """An empty store, or one with this content: connections and what they prepared stay."""
        if content is None:
            self.synced.unlink(missing_ok=True)
            for path in self.folder.glob("gramwatt.db.*"):  # of the scheduler of an earlier story
                path.unlink()
        with closing(sqlite3.connect(content or self.template)) as source:
            source.backup(self.beside())

    def disconnect(self) -> None:
        """Close every connection to the store."""
        if self._side is not None:
            self._side.close()
            self._side = None
        if self.engine is not None:
            self.engine.dispose()

    def _engine(self, url: Any) -> Engine:
        if self.engine is None:
            self.engine = self._make_engine(url)
            self._watch(self.engine.dialect)
        return self.engine

    def _watch(self, dialect: Any) -> None:
        """Tell the server of every statement; an event of the engine would take twice as long."""

        def watching(execute: Any) -> Any:
            def watched(cursor: Any, text: str, *more: Any) -> None:
                if self.server is not None:
                    self.server.statement(text)
                execute(cursor, text, *more)

            return watched

        for name in ("do_execute", "do_executemany"):
            setattr(dialect, name, watching(getattr(dialect, name)))


class Server:
    """The one server of a world."""

    def __init__(self, world: World, ledger: Ledger, plant: Plant, machine: Machine) -> None:
        self.world, self.ledger, self.plant, self.machine = world, ledger, plant, machine
        self.skew_ns = 0
        self.mortal = self.failing = self.busy = 0.0
        """Shares of the points in a request at which the process dies, of statements at which the
        database fails, and of points at which another request goes first."""
        self.process: Process | None = None
        self.service: Service | None = None
        self._scheduler: Scheduler | None = None
        """Made by the first task whose run it records."""
        self._listens_since_us = 0
        self._writing = 0
        self._transacting = False
        self._failures = {True: 0, False: 0}
        """How many conflicts that are tried again, and other errors, this request has met."""
        self.like_postgresql = False
        """Work is done as on PostgreSQL, where conflicts are tried again."""
        plant.server = None
        plant.reset()
        plant.server = self

    def clock(self) -> datetime:
        """The server's clock, which may be wrong."""
        return EPOCH + timedelta(microseconds=(self.world.now_ns + self.skew_ns) // 1000)

    def upgraded(self) -> None:
        """The store is that of an earlier release, whose scores followed other factors."""
        earlier = "UPDATE factor_backfill SET done = 'earlier', until = 'earlier'"
        self.plant.beside().execute(earlier)

    def start(self) -> None:
        """A new process over the same store."""
        if self.process is not None:
            return
        self.process = Process("server")
        self.service = self.plant.open(self.clock)
        self.plant.app.extensions[EXTENSION] = self.service
        self.world.log("server starts")
        self._lives(self.process, self._begin_work)

    def _begin_work(self) -> None:
        """What `gramwatt serve` and its scheduler do first (service/tasks)."""
        service = self.service
        assert service is not None
        with suppress(sa.exc.OperationalError):  # logged, and tried again
            beat(service)
            if self.world.draw.random() < 0.3:
                expect(service)  # changes nothing after a beat
                runs.interrupt(service)  # few tasks of a story record that they run
        self._listens_since_us = service.now_us()

    def stop(self) -> None:
        """End the process: what it held in memory is gone."""
        if self.process is None:
            return
        self.process.die()
        if self._scheduler is not None:
            self._scheduler._leader.resign()
        self.process = self.service = self._scheduler = None
        self._writing = 0

    def die(self) -> None:
        """Kill the process; it comes back after a while."""
        if self.process is not None:
            self.stop()
            self.world.log("server is dead")
            self.world.after(self.world.draw.uniform(0.5, 60), self.start)

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer | None:
        """The answer to a request; None when nobody answers, or no more."""
        process = self.process
        if process is None:
            return None
        answers: list[Answer] = []
        shown = {"Authorization": f"Bearer {self.plant.key}", **headers}
        environ = environ_of(method, path, body, shown)
        before, self._failures = self._failures, {True: 0, False: 0}
        if not self._lives(process, lambda: answers.append(call(self.plant.app, environ))):
            return None
        answer = answers[0]
        conflicts, others = self._failures[True], self._failures[False]
        self._failures = before
        self.world.log(f"{method} {path} {len(body)} B -> {answer.status}, {len(answer.body)} B")
        if method == "POST" and path.endswith("/records") and answer.status == 200:
            self._acknowledged(path.split("/")[3], body, answer.document)
        if 0 < conflicts < 4 and not others and answer.status >= 500:
            self.ledger.fails(f"{path} answers {answer.status} after {conflicts} conflicts")
        return answer

    def ask(self, path: str) -> Any:
        """The document at an address, as a user on the server's own machine gets it."""
        answer = self.answer("GET", path, b"", {"Accept": "application/json"})
        if answer is None or answer.status != 200:
            text = None if answer is None else answer.body[:300]
            self.ledger.fails(f"GET {path} answers {answer and answer.status}: {text!r}")
            return None
        return answer.document

    def work(self, name: str) -> None:
        """One of the periodic tasks."""
        process, service = self.process, self.service
        if process is None or service is None:
            return
        self.world.log(f"task {name}")
        if name == "close-silent":
            self._beat(service)
        if self.world.calm:
            self._lives(process, lambda: TASKS[name].action(service))
        elif self.world.draw.random() < 0.3:
            scheduler = self._scheduler = self._scheduler or Scheduler(service)
            self._lives(process, lambda: scheduler.run(name))
        else:  # without the record of the run, to save time; the scheduler reports these errors
            with suppress(sa.exc.OperationalError, OSError):
                self._lives(process, lambda: TASKS[name].action(service))
        if name == "close-silent":
            self._check_silent()

    def import_points(self, file: Path, zone: str) -> bool:
        """`gramwatt import intensity` on the server's machine; whether it succeeded."""
        process, service = self.process, self.service
        if process is None or service is None:
            return False
        done = []

        def act() -> None:
            with suppress(sa.exc.OperationalError):  # the command reports it
                done.append(import_csv(service, file, zone, "lifecycle", "average"))

        self.world.log(f"import of points for {zone}")
        return self._lives(process, act) and bool(done)

    def _beat(self, service: Service) -> None:
        """The beats since this process began, every 10 s, in one step."""
        self.plant.beside().execute(
            "UPDATE listening SET beat_us = max(beat_us, ?) WHERE beat_us >= ?",
            (service.now_us(), self._listens_since_us - 20_000_000),
        )

    def _check_silent(self) -> None:
        """No job counts as silent that sent a line a moment ago, by the server's own clock."""
        limit_us = self.plant.silent_after_us
        wanted = "SELECT job_id, silent_us FROM jobs WHERE silent_us > 0"
        for job_id, silent_us in self.plant.beside().execute(wanted).fetchall():
            heard_us = self.ledger.heard_us.get(job_id, silent_us - limit_us)
            if heard_us <= silent_us < heard_us + limit_us:
                self.ledger.fails(f"{job_id} sent lines, and is closed as silent")

    def stored_jobs(self) -> list[tuple[str, int, str]]:
        """Id, newest revision and state of every job in the store."""
        wanted = "SELECT job_id, revision, state FROM jobs ORDER BY job_id"
        return self.plant.beside().execute(wanted).fetchall()

    def stored_revisions(self, job_id: str) -> list[int]:
        """The revisions of a job in the store, in order."""
        wanted = (
            "SELECT scores.revision FROM scores JOIN jobs ON jobs.id = scores.job"
            " WHERE jobs.job_id = ? ORDER BY 1"
        )
        return self._column(wanted, job_id)

    def stored_intervals(self) -> int:
        """How many intervals of all jobs are in the store."""
        return self._column("SELECT count(*) FROM intervals")[0]

    def _column(self, statement: str, *values: str) -> list[int]:
        return [row[0] for row in self.plant.beside().execute(statement, values).fetchall()]

    def synchronous(self) -> int:
        """How SQLite syncs: 2 and more before a commit is answered, 1 only now and then."""
        assert self.plant.engine is not None
        with self.plant.engine.connect() as connection:
            return int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())

    def note_disk(self) -> None:
        """Remember what of the store is on the disk for certain, if commits are not synced."""
        if self.synchronous() < 2 and not self._writing:
            with closing(sqlite3.connect(self.plant.synced)) as target:
                self.plant.beside().backup(target)

    def cut_power(self) -> None:
        """The machine of the server loses power: what was not synced is gone."""
        if self._writing:
            return
        unsafe = self.synchronous() < 2
        self.die()
        if unsafe and self.plant.synced.exists():
            self.plant.reset(self.plant.synced)

    def work_all(self, *, but: Collection[str]) -> None:
        """Every periodic task once, but for those that find nothing."""
        for name in TASKS:
            if name not in but:
                self.work(name)

    def statement(self, text: str) -> None:
        """A statement is about to run: the database may fail it."""
        if self._writing and not text.startswith("PRAGMA") and self.world.chance(self.failing):
            self._fail("a statement")

    def point(self, *, writing: bool) -> None:
        """A point between two transactions, or before a commit: the process may die here."""
        process = self.process
        if self.world.process is not process or process is None:
            return
        if self.world.chance(self.mortal):
            self.world.fault("kill", "server " + ("before a commit" if writing else "in between"))
            raise Death
        if not self._writing and self.world.chance(self.busy):
            self.world.fault("race")
            self.world.pass_s(self.world.draw.uniform(0, 3))
            if self.process is not process:  # it died meanwhile
                raise Death

    def _fail(self, where: str) -> None:
        kind = self.world.draw.choice(list(ERRORS))
        self._failures[kind in CONFLICTS and self._transacting] += 1
        self.world.fault(kind, f"at {where}")
        raise sa.exc.OperationalError("a statement", {}, ERRORS[kind]())

    @contextmanager
    def write(self, original: Callable[[], Any]) -> Iterator[Any]:
        """A transaction, with what may happen around it."""
        self.point(writing=False)
        with original() as session:
            self._writing += 1
            try:
                yield session
                self.point(writing=True)
                if self.world.chance(self.failing):
                    self._fail("a commit")
            finally:
                self._writing -= 1
        if self.world.chance(self.failing):  # committed, but nobody heard of it
            self._fail("the answer to a commit")
        self.point(writing=False)

    def transact(self, original: Callable[[], Any]) -> Any:
        """A unit of work: nobody else in this thread may come in between, for it holds a lock."""
        self.point(writing=False)
        self._writing += 1
        try:
            if not self.like_postgresql:
                return original()
            self._transacting = True
            with patch.object(Store, "is_sqlite", False):
                return original()
        finally:
            self._writing -= 1
            self._transacting = False

    def wait(self, duration_s: float) -> None:
        """Let time pass for work that is tried again: meanwhile it holds no lock."""
        process, held = self.process, (self._writing, self._transacting)
        self._writing, self._transacting = 0, False
        self.world.pass_s(duration_s)
        self._writing, self._transacting = held
        if self.process is not process:  # it died meanwhile
            raise Death

    @contextmanager
    def read(self, original: Callable[[], Any]) -> Iterator[Any]:
        """A reading session, after which another request may come."""
        with original() as session:
            yield session
        self.point(writing=False)

    def _lives(self, process: Process, action: Callable[[], object]) -> bool:
        if self.world.lives(self.machine, process, action):
            return True
        if self.process is process:
            self.die()
        return False

    def _acknowledged(self, job_id: str, body: bytes, answer: dict[str, Any]) -> None:
        self.ledger.answered(job_id, body, answer)
        self._heard(job_id, answer)
        if len(self.ledger.bodies) < 8:
            self.ledger.bodies.append((job_id, body))

    def took_in(self, job_id: str, lines: list[bytes], answer: dict[str, Any]) -> None:
        """Lines of the spool of the server's own machine are stored."""
        self.ledger.answered(job_id, b"\n".join(lines) + b"\n", answer)
        self._heard(job_id, answer)

    def _heard(self, job_id: str, answer: dict[str, Any]) -> None:
        if answer["accepted"]:
            self.ledger.heard_us[job_id] = (self.world.now_ns + self.skew_ns) // 1000


@contextmanager
def watched(plant: Plant) -> Iterator[None]:
    """Let the server of the moment see every transaction, and stub the months' advice.

    Advice is a slow pure function of documents; what it suggests is tested elsewhere.
    """
    write, read, take = Store.write, Store.read, ingest_module.ingest_unscored
    transact = Store.transact

    def writing(store: Store, **more: Any) -> Any:
        begin = partial(write, store, **more)
        return plant.server.write(begin) if plant.server else begin()

    def transacting(store: Store, work: Any, **more: Any) -> Any:
        do = partial(transact, store, work, **more)
        return plant.server.transact(do) if plant.server else do()

    def reading(store: Store) -> Any:
        return plant.server.read(lambda: read(store)) if plant.server else read(store)

    def taking(
        service: Service, job_id: str, lines: Any, *, only_ended: bool = False, **more: Any
    ) -> Any:
        kept = list(lines)
        answer, key = take(service, job_id, kept, only_ended=only_ended, **more)
        # What came by HTTP, where the end is what matters, is acknowledged when it is answered.
        if plant.server is not None and not only_ended:
            plant.server.took_in(job_id, kept, to_builtins(answer))
        return answer, key

    with ExitStack() as stack:
        stack.enter_context(patch.object(Store, "write", writing))
        stack.enter_context(patch.object(Store, "read", reading))
        stack.enter_context(patch.object(Store, "transact", transacting))
        stack.enter_context(patch.object(database, "time", Waits()))
        stack.enter_context(patch.object(database, "random", Random()))
        stack.enter_context(patch.object(ingest_module, "ingest_unscored", taking))
        for name in ("for_month", "rows_of_own_jobs"):
            stack.enter_context(patch.object(advice, name, lambda *_: []))
        yield


PERIOD_S = {name: task.every.total_seconds() for name, task in TASKS.items()}
