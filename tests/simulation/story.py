"""A seed's story: jobs on machines around the end of a day or month, and all that goes wrong."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from gramwatt.collectors.settings import http
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool import send, spool
from tests.simulation import budgets
from tests.simulation.client import POWERS_W, Client, Gpu, run_sync
from tests.simulation.ledger import Job, Ledger
from tests.simulation.network import Network
from tests.simulation.server import ADDRESS, PERIOD_S, Plant, Server, watched
from tests.simulation.surroundings import SCENE, cut_power, installed
from tests.simulation.world import NS_PER_S, Machine, World

EDGES = (
    datetime(2026, 3, 1, tzinfo=UTC),
    datetime(2026, 6, 30, tzinfo=UTC),
    datetime(2026, 7, 1, tzinfo=UTC),
    datetime(2026, 12, 31, tzinfo=UTC),
    datetime(2027, 1, 1, tzinfo=UTC),
)
"""Ends of days and months near which most stories happen."""
HOURS_S = 3600.0
IDLE = ("refresh-intensity", "retention", "backup", "budgets", "outbox")
"""Tasks that find nothing to do in a story: nothing of theirs is configured."""
ENDS = (("completed", 0), ("completed", 0), ("failed", 3), ("failed", None), ("killed", None))


class Stage:
    """What many stories share in one process: the stand-ins, the app, a folder in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plant = Plant(folder)

    @classmethod
    @contextmanager
    def set(cls, folder: Path) -> Iterator[Stage]:
        """The stage, with production code in its surroundings."""
        _clear(folder)
        logging.disable(logging.CRITICAL)
        original = http.new_session
        stage = cls(folder)
        SCENE.plant = stage.plant

        def session(api_key: str | None) -> object:
            return SCENE.network.session(original(api_key))

        with ExitStack() as stack:
            stack.callback(logging.disable, logging.NOTSET)
            stack.enter_context(installed())
            stack.enter_context(watched(stage.plant))
            stack.enter_context(budgets.received())
            stack.enter_context(patch.object(send, "new_session", session))
            stack.enter_context(patch.object(http, "within", _inline))
            yield stage


def _inline(_limit_s: float, exchange: Callable[[], object]) -> object:
    """The exchange in this thread: the network of the story keeps its own time limits."""
    return exchange()


class Story:
    """One seed, from its first job to the moment when nothing happens any more."""

    def __init__(self, seed: int, stage: Stage) -> None:
        home = stage.folder / "homes"
        self.world = World(seed, home)
        self.ledger = Ledger(self.world)
        draw = self.draw = self.world.draw
        edge = draw.choice(EDGES) + timedelta(seconds=draw.uniform(-150, 10))
        self.world.begin(round(edge.timestamp() * 1e6) * 1000)
        self.machines = [
            Machine(f"m{n}", home / f"m{n}") for n in range(draw.choice([1, 1, 2, 2, 3]))
        ]
        local = draw.random() < 0.2
        host = self.machines[0] if local else Machine("srv", stage.folder / "server")
        host.home = stage.folder / "server"
        self.local = host if local else None
        _clear(home)
        _clear(host.home)
        shutil.rmtree(host.memory, ignore_errors=True)  # beside its home
        self.server = Server(self.world, self.ledger, stage.plant, host)
        self.network = Network(self.world, self.server)
        self.receiver = budgets.Receiver(self)
        SCENE.world, SCENE.ledger, SCENE.network = self.world, self.ledger, self.network
        SCENE.receiver = self.receiver
        SCENE.synced, SCENE.written_ns, SCENE.kept = {}, {}, {}
        self.forward: set[str] = set()
        """Machines whose clock is only set forward: no later run on a machine can know where a
        delivered one stood before the clock was set back."""
        self.length_s = draw.choice([30.0, 60.0, 120.0, 240.0])
        self._set_clocks()

    def tell(self) -> None:
        """Everything that happens until no fault is left and nothing is spooled."""
        if self.draw.random() < 0.2:
            self.server.upgraded()
        self.server.start()
        self._plan_jobs()
        self._plan_work()
        self._plan_faults()
        self._plan_users()
        self.world.run_until(self.world.now_ns + round(self.length_s * 3 * NS_PER_S))
        self._calm_down()

    def _set_clocks(self) -> None:
        draw = self.draw
        for machine in self.machines:
            machine.booted_ns = self.world.now_ns - draw.randrange(1, 10**6) * NS_PER_S
            machine.release = draw.choice(["this", "this", "older", "newer"])
            if draw.random() < 0.4:
                machine.skew_ns = round(draw.uniform(-200, 200) * 1e6) * 1000
                self.world.fault("clock skew", machine.name)
        if draw.random() < 0.3:
            self.server.skew_ns = round(draw.uniform(-300, 300) * 1e6) * 1000
            self.world.fault("clock skew", "server")

    def _plan_jobs(self) -> None:
        draw, numbers = self.draw, iter(range(100, 200))
        for number in range(draw.choice([1, 1, 1, 2])):
            job_id = f"job-{number}"
            project = draw.choice(["vision", "speech"])
            job = self.ledger.jobs[job_id] = Job(job_id, project, draw.choice(["FR", "DE"]))
            role = draw.choice(["command", "track"])
            for machine in draw.sample(self.machines, draw.randint(1, min(2, len(self.machines)))):
                gpus = [
                    Gpu(f"GPU-{job_id}-{machine.name}-{n}", tuple(draw.choices(POWERS_W, k=5)))
                    for n in range(draw.choice([1, 1, 2]))
                ]
                start_s = draw.uniform(0, self.length_s / 2)
                runs = draw.choice([1, 1, 1, 1, 2])
                if runs > 1:
                    self.forward.add(machine.name)
                for _ in range(runs):
                    end_s = start_s + draw.uniform(5, self.length_s)
                    self._plan_client(job, machine, next(numbers), role, gpus, start_s, end_s)
                    start_s = end_s + draw.uniform(1, 20)

    def _plan_client(
        self,
        job: Job,
        machine: Machine,
        number: int,
        role: str,
        gpus: list[Gpu],
        start_s: float,
        end_s: float,
    ) -> None:
        draw, world = self.draw, self.world
        state, exit_code = draw.choice(ENDS)
        config = replace(self._config(machine), project=job.project, zone=job.zone)
        client = Client(
            world, machine, job, number, role, gpus, config, state=state, exit_code=exit_code
        )
        world.after(start_s, client.begin)
        world.after(end_s, client.end)
        for _ in range(draw.randrange(5)):
            amount = float(draw.randrange(1, 1000))
            world.after(draw.uniform(start_s, end_s), partial(self._count, client, amount))
        for _ in range(draw.choice([0, 0, 1, 2])):
            moment_s = draw.uniform(start_s, end_s + 5)
            kind = draw.choice(["kill", "kill", "doom", "doom", "die", "die"])
            act = {
                "kill": client.kill_meter,
                "doom": partial(client.doom, draw.randrange(40)),
                "die": client.die,
            }[kind]
            world.after(moment_s, act)
            if kind == "kill":  # a line ends, which its meter has and perhaps the disk has not
                last_s = draw.uniform(2, 8)
                for before_s in (last_s + 10.1, last_s + 1, last_s):
                    amount = float(draw.randrange(1, 1000))
                    world.after(moment_s - before_s, partial(self._count, client, amount))
            if kind == "die":  # what it counted last is saved, and perhaps not journaled yet
                amount = float(draw.randrange(1, 1000))
                world.after(moment_s - draw.uniform(0, 12), partial(self._count, client, amount))
        for _ in range(draw.choice([0, 0, 1, 2])):
            moment_s = draw.uniform(start_s, end_s + 30)
            job_id = draw.choice([job.job_id, None])
            world.after(moment_s, partial(self._sync, machine, job_id))
            if draw.random() < 0.15:  # with what was sent perhaps not on the disk yet
                cut_s = moment_s + draw.uniform(1, 15)
                world.after(cut_s, partial(self._cut_power, machine))
        if draw.random() < 0.3:  # a sync that looks while the last lines are written
            world.after(end_s - draw.uniform(0, 0.5), partial(self._sync, machine, None))
        synced_s = end_s + draw.uniform(0.5, 5)
        world.after(synced_s, partial(self._sync, machine, job.job_id))
        if draw.random() < 0.1:  # the end is stored, not answered, and perhaps not on the disk yet
            amount = float(draw.randrange(1, 1000))
            world.after(end_s - draw.uniform(0, 3), partial(self._count, client, amount))
            world.after(synced_s + 0.25, partial(self._partition, machine, True))
            world.after(synced_s + draw.uniform(0.2, 10), partial(self._cut_power, machine))
            world.after(synced_s + 10, partial(self._partition, machine, False))

    @staticmethod
    def _count(client: Client, amount: float) -> None:
        if client.start and not client.over:
            client.count(amount)

    def _config(self, machine: Machine) -> Config:
        server = None if machine is self.local else ADDRESS
        key = self.server.plant.key
        return Config(home=machine.home, server=server, api_key=key, units=("image",), name="sim")

    def _sync(self, machine: Machine, job_id: str | None = None) -> None:
        if machine is self.local:
            self.server.work("ingest-spool")
        else:
            run_sync(self.world, self._config(machine), machine, job_id)

    def _plan_work(self) -> None:
        """The periodic tasks, at moments of their own, but seldom, to save time."""
        draw = self.draw
        for name, period_s in PERIOD_S.items():
            times = draw.choice([0, 0, 1, 2]) if period_s < 1000 else draw.choice([0, 1])
            if name in IDLE:
                times = draw.random() < 0.1
            for _ in range(times):
                moment_s = draw.uniform(0, self.length_s * 3)
                self.world.after(moment_s, partial(self.server.work, name))

    def _plan_faults(self) -> None:
        draw, world, length_s = self.draw, self.world, self.length_s
        network, server = self.network, self.server
        for name in ("loss", "delay", "repeat", "cut"):
            setattr(network, name, draw.choice([0.0, 0.0, 0.1, 0.3]))
        server.mortal = draw.choice([0.0, 0.0, 0.02, 0.1])
        server.failing = draw.choice([0.0, 0.0, 0.005, 0.02])
        server.busy = draw.choice([0.0, 0.1, 0.3])
        for _ in range(draw.choice([0, 0, 1, 2])):
            world.after(draw.uniform(0, length_s * 2), self._kill_server)
        for machine in self.machines:
            for _ in range(draw.choice([0, 0, 1])):
                moment_s = draw.uniform(0, length_s * 2)
                world.after(moment_s, partial(self._partition, machine, True))
                heals_s = moment_s + 10 ** draw.uniform(0, 3)
                world.after(heals_s, partial(self._partition, machine, False))
            for _ in range(draw.choice([0, 0, 1])):
                moment_s = draw.uniform(0, length_s)
                world.after(moment_s, partial(self._fill, machine, True))
                world.after(
                    moment_s + 10 ** draw.uniform(0, 2), partial(self._fill, machine, False)
                )
            for _ in range(draw.choice([0, 0, 0, 1])):
                moment_s, by_s = draw.uniform(0, length_s * 2), draw.uniform(-120, 120)
                world.after(moment_s, partial(self._set_clock, machine, by_s))
            if draw.random() < 0.2:
                world.after(draw.uniform(0, length_s * 1.2), partial(self._cut_power, machine))
        network.on_lost = self._black_out if draw.random() < 0.3 else network.on_lost
        if draw.random() < 0.2:
            world.after(draw.uniform(0, length_s * 3), self._set_server_clock)
        self.server.like_postgresql = draw.random() < 0.4
        if draw.random() < 0.3:
            moment_s = draw.uniform(length_s / 4, length_s * 2)
            world.after(moment_s - draw.uniform(0, length_s / 2), self.server.note_disk)
            world.after(moment_s, self._cut_power_of_server)

    def _plan_users(self) -> None:
        draw, world = self.draw, self.world
        for job in self.ledger.jobs.values():
            if draw.random() < 0.3:
                moment_s = draw.uniform(self.length_s / 2, self.length_s * 3)
                world.after(moment_s, partial(self._correct, job))
            if draw.random() < 0.08:
                moment_s = draw.uniform(self.length_s / 2, self.length_s * 3)
                world.after(moment_s, partial(self._delete, job))
        if draw.random() < 0.3:
            world.after(draw.uniform(0, self.length_s * 3), self._look_at_month)
        if draw.random() < 0.3:
            moment_s = draw.uniform(0, self.length_s * 3)
            world.after(moment_s, partial(self._import_intensity, draw.choice(["FR", "DE"])))
        if draw.random() < 0.25:
            budgets.plan(self)

    def _kill_server(self) -> None:
        self.world.fault("kill", "server")
        self.server.die()

    def _partition(self, machine: Machine, cut: bool) -> None:
        if cut and not machine.partitioned:
            self.world.fault("partition", machine.name)
        machine.partitioned = cut

    def _fill(self, machine: Machine, full: bool) -> None:
        if full and not machine.full:
            self.world.fault("disk full", machine.name)
        machine.full = full

    def _set_clock(self, machine: Machine, by_s: float) -> None:
        by_s = abs(by_s) if machine.name in self.forward else by_s
        self.world.fault("clock jump", f"{machine.name} {by_s:+.0f} s")
        machine.skew_ns += round(by_s * 1e6) * 1000

    def _set_server_clock(self) -> None:
        by_s = self.draw.choice([-30.0, -5.0, 5.0, 100.0, 1000.0])
        self.world.fault("clock jump", f"server {by_s:+.0f} s")
        self.server.skew_ns += round(by_s * NS_PER_S)

    def _black_out(self, machine: Machine) -> None:
        """The power fails that took the network with it."""
        self.world.after(self.draw.uniform(0, 20), partial(self._cut_power, machine))

    def _cut_power(self, machine: Machine) -> None:
        """The machine is off for a while, and comes back as another node, with a right clock."""
        if machine is self.local or self.world.calm:  # the store on it is a subject of its own
            return
        self.world.fault("power cut", machine.name)
        for job in self.ledger.jobs.values():
            for client in job.clients:
                if client.machine is machine and client.start:
                    client.power_cut()
        with self.world.acting(machine, None):
            cut_power(machine)
        for sending in machine.syncs:
            sending.die()
        machine.boots += 1
        machine.booted_ns = self.world.now_ns
        machine.alive.clear()

    def _cut_power_of_server(self) -> None:
        if self.local is None:
            self.world.fault("power cut", "server")
            self.server.cut_power()

    def _correct(self, job: Job) -> None:
        field, value = self.draw.choice(
            [("project", "renamed"), ("zone", "SE"), ("pue", 1.5), ("name", "better")]
        )
        body = json.dumps({field: value}).encode()
        headers = {"Content-Type": "application/json"}
        answer = self.server.answer("PATCH", f"/v1/jobs/{job.job_id}", body, headers)
        if answer is not None and answer.status == 200:
            job.corrected[field] = {value}
        elif answer is None or answer.status >= 500 or answer.status == 409:
            # It may have been stored, and then not answered or not scored.
            job.corrected.setdefault(field, {None}).add(value)

    def _delete(self, job: Job) -> None:
        answer = self.server.answer("DELETE", f"/v1/jobs/{job.job_id}", b"", {})
        if answer is None or answer.status >= 500:
            job.deleted = job.deleted or None
        elif answer.status in (200, 410):
            job.deleted = True

    def _look_at_month(self) -> None:
        day = self.server.clock() - timedelta(days=self.draw.choice([0, 1]))
        self.server.answer("GET", f"/v1/reports/monthly/{day:%Y-%m}.json", b"", {})

    def _import_intensity(self, zone: str) -> None:
        """Points of the story's days arrive, perhaps after jobs were scored without them."""
        g_per_kwh = float(self.draw.randrange(20, 900))
        midnight = self.server.clock().replace(hour=0, minute=0, second=0, microsecond=0)
        hours = [midnight + timedelta(hours=n) for n in range(-48, 48)]
        file = self.server.plant.folder / "points.csv"
        lines = [f"{hour:%Y-%m-%dT%H:%MZ},{g_per_kwh}\n" for hour in hours]
        file.write_text("start_utc,g_per_kwh\n" + "".join(lines))
        if self.server.import_points(file, zone):
            self.ledger.g_per_kwh[zone] = {g_per_kwh}
        else:  # it may have been stored, and then not answered
            self.ledger.g_per_kwh[zone] = {None, g_per_kwh}

    def _calm_down(self) -> None:
        """All faults end; then syncs and tasks run until there is nothing left to do."""
        world = self.world
        world.log("calm")
        world.calm = True
        for machine in self.machines:
            machine.full = machine.partitioned = False
        world.drain()
        self.server.start()
        for job in self.ledger.jobs.values():
            for client in job.clients:
                client.end()
        world.drain()
        for _ in range(6):
            for machine in self.machines:
                self._sync(machine)
            world.drain()
            if not any(self._spooled(machine) for machine in self.machines):
                break
            world.pass_s(1000)
        else:
            self.ledger.fails(f"spooled for ever: {self._left()}")
        if self.ledger.limits_kg:
            budgets.come_to_rest(self)
        world.pass_s(62 * 24 * HOURS_S)  # the months are over
        idle = (*IDLE, "refresh-running", "present-month")
        # Without it, a month that is asked for has no report that was kept.
        unmade = () if self.draw.random() < 0.5 else ("monthly-reports",)
        self.server.work_all(but=(*idle, *unmade))
        if self.ledger.limits_kg:
            self.server.work("outbox")

    def _spooled(self, machine: Machine) -> bool:
        with self.world.acting(machine, None):
            return bool(spool.folders(machine.home))

    def _left(self) -> list[str]:
        return sorted(
            str(path.relative_to(machine.home))
            for machine in self.machines
            for path in machine.home.rglob("*")
            if path.is_file()
        )


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
