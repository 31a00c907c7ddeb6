from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import pytest

from gramwatt import track
from gramwatt.collectors.track import messages
from gramwatt.collectors.track import session as session_module
from gramwatt.collectors.track.session import UNIT_NAME
from gramwatt.collectors.track.track import _script_name
from gramwatt.sci.records.records import UNIT_PATTERN


class FakeClient:
    """Remembers what a job's client was told, in the words of the protocol."""

    def __init__(self, job_id: str, role: str, args: dict[str, Any]) -> None:
        self.job_id, self.role, self.args = job_id, role, args
        self.told: list[tuple[Any, ...]] = []
        self.job_role, self.folder = role, "/dev/null"
        self.ready = True
        self.home: str | None = None

    def start(self) -> bool:
        self.told.append(("start",))
        return True

    def count(self, amount: float, unit: str | None = None, phase: str | None = None) -> None:
        self.told.append(("count", amount, unit, phase))

    def enter_window(self, name: str, start_ns: int) -> None:
        self.told.append(("enter", name, start_ns))

    def leave_window(self, name: str, start_ns: int, counts: dict[str | None, float]) -> None:
        self.told.append(("leave", name, start_ns, counts))

    def send_notice(self, code: str, text: str) -> None:
        self.told.append(("notice", f"{code}: {text}"))

    def stop(
        self,
        state: str,
        exit_code: int | None = None,
        signal: int | None = None,
        *,
        lines: bool = False,
    ) -> bool:
        self.told.append(("stop", state, exit_code, signal))
        self.asked_lines = lines
        return True

    def end_lines(self) -> list[str]:
        return [f"the line of {self.job_id}"] if self.asked_lines else []

    def wait_ready(self) -> bool:
        return self.ready

    def in_child(self) -> FakeClient:
        child = FakeClient(self.job_id, "worker", self.args)
        child.told = self.told
        self.told.append(("child",))
        return child

    @staticmethod
    def find() -> None:
        """No process above this one runs a job."""

    @property
    def counts(self) -> list[tuple[Any, ...]]:
        return [item[1:] for item in self.told if item[0] == "count"]

    @property
    def end(self) -> tuple[Any, ...]:
        (stop,) = (item for item in self.told if item[0] == "stop")
        return stop[1:]


@pytest.fixture
def clients(monkeypatch):
    made: list[FakeClient] = []

    class Made(FakeClient):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args)
            if not more:
                made.append(self)

    for name in ("GRAMWATT_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "GRAMWATT_OFF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session_module, "Client", Made)
    monkeypatch.setattr(session_module, "_ended", 0)
    monkeypatch.setenv("GRAMWATT_QUIET", "1")
    monkeypatch.setattr(messages, "_reported", set())
    yield made
    assert session_module._current is None


def test_bare_decorator_keeps_result_signature_and_name(clients):
    @track
    def train(steps: int, *, rate: float = 0.1) -> float:
        """Train."""
        return steps * rate

    assert train(10, rate=0.5) == 5.0
    assert train.__name__ == "train"
    assert train.__doc__ == "Train."
    assert list(inspect.signature(train).parameters) == ["steps", "rate"]
    assert clients[0].role == "track"
    assert clients[0].args["default_name"].endswith("train")
    assert clients[0].end == ("completed", None, None)


def test_counts_with_units_and_nested_windows(clients):
    with track(unit="image") as job:
        job.count(64)
        with job.window("epoch-1"):
            job.count(2)
            with job.window("validation"):
                job.count(token=4096, image=3)
            job.count(1)
        job.count(5)
    assert clients[0].counts == [
        (64.0, None, None),
        (2.0, None, "epoch-1"),
        (4096.0, "token", "epoch-1/validation"),
        (3.0, "image", "epoch-1/validation"),
        (1.0, None, "epoch-1"),
        (5.0, None, None),
    ]


def test_a_window_tells_its_edges_its_whole_name_and_what_was_counted_in_it(clients):
    with track(unit="image") as job:
        window = job.window("step")
        for amount in (2, 3):
            with job.window("epoch"), window:
                job.count(amount, token=7)
    edges = [item for item in clients[0].told if item[0] in ("enter", "leave")]
    assert [item[:2] for item in edges] == [
        ("enter", "epoch"),
        ("enter", "epoch/step"),
        ("leave", "epoch/step"),
        ("leave", "epoch"),
    ] * 2
    assert [item[3] for item in edges if item[0] == "leave"] == [
        {None: 2.0, "token": 7.0},
        {None: 2.0, "token": 7.0},
        {None: 3.0, "token": 7.0},
        {None: 3.0, "token": 7.0},
    ]
    starts_ns = [item[2] for item in edges]
    assert starts_ns[:4] == [starts_ns[0], starts_ns[1], starts_ns[1], starts_ns[0]]
    assert starts_ns[0] < starts_ns[1] < starts_ns[4]


def counted_in_windows(client: FakeClient) -> list[tuple[str, float]]:
    return sorted((item[1], item[3][None]) for item in client.told if item[0] == "leave")


ONE_EACH = [("part-0", 1.0), ("part-1", 1.0), ("part-2", 1.0)]


def test_threads_have_windows_of_their_own(clients):
    together = threading.Barrier(3)

    def work(number: int) -> None:
        with job.window(f"part-{number}"):
            together.wait(30)
            job.count(1)
            together.wait(30)

    with track(unit="image") as job, job.window("epoch"):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        job.count(10)
    assert counted_in_windows(clients[0]) == [("epoch", 10.0), *ONE_EACH]
    assert sorted(clients[0].counts, key=str) == [
        *((1.0, None, name) for name, _ in ONE_EACH),
        (10.0, None, "epoch"),
    ]


def test_tasks_have_windows_of_their_own_inside_those_around_them(clients):
    async def work(number: int) -> None:
        with job.window(f"part-{number}"):
            await asyncio.sleep(0.01)
            job.count(1)
            await asyncio.to_thread(job.count, 1)

    async def main() -> None:
        with job.window("epoch"):
            await asyncio.gather(*map(work, range(3)))
            job.count(10)

    with track(unit="image") as job:
        asyncio.run(main())
        job.count(5)
    inner = [(f"epoch/{name}", 2.0) for name, _ in ONE_EACH]
    assert counted_in_windows(clients[0]) == [("epoch", 16.0), *inner]
    assert clients[0].counts[-1] == (5.0, None, None)


@pytest.mark.parametrize(
    "wrong",
    ["x" * 100_000, -1, float("nan"), float("inf"), 10**400, [1]],
    ids=lambda v: str(type(v)),
)
def test_a_wrong_amount_is_a_notice_and_not_an_error(clients, capsys, wrong):
    with track() as job:
        job.count(wrong)
        job.count(**{"no/unit": 1})
        job.count(1)
    assert clients[0].counts == [(1.0, None, None)]
    notes = [item[1] for item in clients[0].told if item[0] == "notice"]
    assert [note.partition(":")[0] for note in notes] == ["argument-ignored"] * 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert (len(lines), max(map(len, lines)) < 300) == (2, True)


def test_unknown_arguments_are_said_and_not_used(clients, capsys):
    with track(projct="x", pue=1.3):  # type: ignore[call-overload]
        pass
    assert clients[0].args.keys() == {"default_name"}  # the meter would use a PUE
    said = [
        "track() has no argument 'projct', and it is ignored; close matches: project",
        "track() has no argument 'pue', and it is ignored; "
        "set GRAMWATT_PUE, or pue in gramwatt.toml",
    ]
    assert [item[1] for item in clients[0].told if item[0] == "notice"] == [
        f"argument-ignored: {text}" for text in said
    ]
    assert capsys.readouterr().err.splitlines() == [
        f"gramwatt: {text} [argument-ignored]" for text in said
    ]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"projct": "x"}, TypeError, "projct"),
        ({"zone": "Atlantis"}, ValueError, "Atlantis"),
        ({"region": "aws:nowhere-9"}, ValueError, "nowhere-9"),
        ({"kind": "guessing"}, ValueError, "guessing"),
        ({"unit": "a/b"}, ValueError, "a/b"),
    ],
)
def test_strict_raises_at_decoration(clients, options, error, match):
    with pytest.raises(error, match=match):
        track(strict=True, **options)
    assert clients == []


def test_strict_raises_at_the_start_when_the_meter_is_not_ready(clients, monkeypatch):
    monkeypatch.setattr(FakeClient, "wait_ready", lambda _self: False)
    with pytest.raises(RuntimeError, match="gramwatt doctor"), track(strict=True):
        pytest.fail("the block must not run")
    assert clients[0].end == ("completed", None, None)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (ValueError("x"), ("failed", None, None)),
        (SystemExit(3), ("failed", 3, None)),
        (SystemExit(0), ("completed", 0, None)),
        (SystemExit(None), ("completed", 0, None)),
        (SystemExit("words"), ("failed", 1, None)),
        (KeyboardInterrupt(), ("killed", None, 2)),
    ],
)
def test_how_a_block_ends_is_how_the_job_ends(clients, error, end):
    with pytest.raises(type(error)), track():
        raise error
    assert clients[0].end == end


def test_nested_tracking_is_one_job_and_counts_its_own_unit(clients):
    @track(unit="token")
    def inner(depth: int) -> None:
        if depth:
            inner(depth - 1)

    with track(unit="image") as outer:
        inner(3)
        with track(unit="token") as nested:
            nested.count(7)
            assert nested.id == outer.id
        with pytest.raises(ValueError, match="inner"), track():
            raise ValueError("inner")
    assert len(clients) == 1
    assert clients[0].counts == [(7.0, "token", None)]
    assert clients[0].end == ("completed", None, None)


def test_two_blocks_are_two_jobs_and_the_environment_is_put_back(clients):
    ids = []
    tracker = track()
    for _ in range(2):
        with tracker as job:
            ids.append(job.id)
            assert os.environ["GRAMWATT_JOB_ID"] == job.id
        assert "GRAMWATT_JOB_ID" not in os.environ
    assert ids == [client.job_id for client in clients]
    assert ids[0] != ids[1]


def test_a_new_job_is_one_of_its_own_inside_another_and_counts_only_its_own(clients):
    outer = track(unit="image")
    inner = track(job="new", unit="token", zone="FR")
    first = outer.start()
    second = inner.__enter__()
    assert os.environ["GRAMWATT_JOB_ID"] == second.id != first.id
    with track() as innermost:
        innermost.count(token=1)
    first.count(2)
    outer.stop()  # before the one inside it
    assert repr(second).endswith(": running>")
    assert os.environ["GRAMWATT_JOB_ID"] == second.id
    inner.__exit__(None, None, None)
    assert "GRAMWATT_JOB_ID" not in os.environ
    assert "GRAMWATT_UNIT" not in os.environ
    assert [client.counts for client in clients] == [[(2.0, None, None)], [(1.0, "token", None)]]
    assert [client.end for client in clients] == [("completed", None, None)] * 2


def test_the_job_lasts_until_the_last_thread_has_left(clients):
    entered, leave = threading.Event(), threading.Event()

    @track
    def late() -> None:
        entered.set()
        leave.wait(30)

    thread = threading.Thread(target=late)
    with track():
        thread.start()
        assert entered.wait(30)
    assert clients[0].told == [("start",)]
    leave.set()
    thread.join()
    assert clients[0].end == ("completed", None, None)


def test_coroutines_stay_coroutines(clients):
    @track(unit="image")
    async def train() -> str:
        await asyncio.sleep(0)
        return "done"

    assert inspect.iscoroutinefunction(train)
    assert clients == []
    assert asyncio.run(train()) == "done"
    assert clients[0].end == ("completed", None, None)


def test_generators_run_inside_and_pass_everything_through(clients):
    @track
    def talk() -> Generator[Any, Any, str]:
        got = yield "first"
        try:
            yield got
        except KeyError as error:
            yield f"caught {error}"
        return "end"

    assert inspect.isgeneratorfunction(talk)
    steps = talk()
    assert clients == []
    assert next(steps) == "first"
    assert clients[0].told == [("start",)]
    assert steps.send("sent") == "sent"
    assert steps.throw(KeyError("k")) == "caught 'k'"
    with pytest.raises(StopIteration) as stopped:
        next(steps)
    assert stopped.value.value == "end"
    assert clients[0].end == ("completed", None, None)


def test_async_generators_run_inside_and_pass_everything_through(clients):
    closed: list[str] = []

    @track
    async def talk() -> AsyncIterator[Any]:
        try:
            got = yield "first"
            try:
                yield got
            except KeyError as error:
                yield f"caught {error}"
            yield "last"
        finally:
            closed.append("closed")

    async def main() -> None:
        steps: Any = talk()
        assert await anext(steps) == "first"
        assert await steps.asend("sent") == "sent"
        assert await steps.athrow(KeyError("k")) == "caught 'k'"
        await steps.aclose()
        assert [item async for item in talk()] == ["first", None, "last"]

    assert inspect.isasyncgenfunction(talk)
    asyncio.run(main())
    assert closed == ["closed"] * 2
    assert [client.end for client in clients] == [("completed", None, None)] * 2


def test_methods_partials_and_callables(clients):
    class Model:
        @track
        def fit(self, x: int) -> int:
            return x + 1

        @track
        @staticmethod
        def version() -> int:
            return 3

        @track
        @classmethod
        def name(cls) -> str:
            return cls.__name__

    class Callable_:  # noqa: N801
        async def __call__(self) -> int:
            return 5

    assert (Model().fit(1), Model.version(), Model().name()) == (2, 3, "Model")
    assert track(functools.partial(pow, 2))(5) == 32
    assert asyncio.run(track(Callable_())()) == 5
    assert len(clients) == 5


def test_off_does_nothing_at_all(clients, monkeypatch, capsys):
    monkeypatch.setenv("GRAMWATT_OFF", "1")
    with track(unit="image") as job:
        job.count(1)
        job.count("wrong")  # type: ignore[arg-type]
        with job.window("epoch-1"):
            assert "GRAMWATT_JOB_ID" not in os.environ
    assert (job.id, job.result, clients) == (None, None, [])
    assert capsys.readouterr() == ("", "")


def test_a_session_that_cannot_start_lets_the_job_run(clients, monkeypatch, capsys):
    class Broken(FakeClient):
        def __init__(self, *_args: Any) -> None:
            raise MemoryError("no memory for a client")

    monkeypatch.setattr(session_module, "Client", Broken)
    with track() as job:
        job.count(1)
    assert job.id is None
    assert "no memory for a client" in capsys.readouterr().err


def test_result_is_the_document_of_sync(clients, monkeypatch):
    asked: list[str] = []

    def answer(what: str, job_id: str, _timeout_s: float, _settings: Any) -> dict[str, Any]:
        asked.append(what)
        return {"document": {"job_id": job_id, "provisional": len(asked) == 1}}

    monkeypatch.setattr("gramwatt.collectors.track.track.ask_sync", answer)
    monkeypatch.setattr(FakeClient, "poll", lambda _self: None, raising=False)
    with track() as job:
        assert job.result == {"job_id": job.id, "provisional": True}
    assert job.result == {"job_id": job.id, "provisional": False}
    assert job.result == {"job_id": job.id, "provisional": False}
    assert asked == ["document", "document"]  # a final document is not asked for again


def test_of_many_jobs_of_a_process_the_first_ten_end_with_a_line(clients, capsys, monkeypatch):
    monkeypatch.delenv("GRAMWATT_QUIET")

    @track
    def step() -> None:
        """A function that is called all the time."""

    for _ in range(13):
        step()
    lines = capsys.readouterr().err.splitlines()
    assert lines[:10] == [f"gramwatt: the line of {client.job_id}" for client in clients[:10]]
    assert lines[10:] == [
        "gramwatt: further jobs of this process end without a line; see `gramwatt jobs`"
    ]


def test_the_unit_pattern_is_the_records_own():
    assert UNIT_NAME.pattern == UNIT_PATTERN.pattern


SCRIPT = """
import json, os, subprocess, sys
from gramwatt.collectors.track import client

def spawn(lock, folder):
    command = [sys.executable, sys.argv[1], folder, sys.argv[2]]
    subprocess.Popen(command, stdin=lock, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

client.CLOSE_TIMEOUT_S = 60.0
client.spawn_meter = spawn
from gramwatt import track
"""


@pytest.mark.parametrize(
    ("script", "caller", "name"),
    [
        ("/a/train.py", "/a/other.py", "train.py"),
        ("/a/pkg/__main__.py", "/a/pkg/train.py", "pkg"),  # python -m pkg
        ("-c", "/a/test_train.py", "test_train.py"),  # a worker of pytest-xdist
        ("-c", "<string>", "-c"),
        ("-c", "/a/tracked_run.py", "-c"),
        ("/a/ipykernel_launcher.py", "<cell>", "notebook"),
    ],
)
def test_a_job_is_named_by_what_its_user_wrote(monkeypatch, script, caller, name):
    monkeypatch.setattr(sys, "argv", [script])
    assert _script_name((caller, 7)) == name


def run_script(tmp_path: Path, body: str) -> tuple[list[dict[str, Any]], Any]:
    """What the fake meter was told by a script of its own process, and how that ended."""
    log = tmp_path / "told.jsonl"
    fake = Path(__file__).parents[1] / "fake_meter.py"
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GRAMWATT_")}
    environ["GRAMWATT_HOME"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + body, str(fake), str(log)],
        capture_output=True,
        text=True,
        env=environ,
        timeout=30,
    )
    told = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return told, done


def ends(told: list[dict[str, Any]]) -> list[tuple[str, int | None]]:
    stops = [stop for item in told if item["cmd"] == "end" for stop in item["stops"]]
    return [(stop["state"], stop["exit_code"]) if stop else ("killed", None) for stop in stops]


def totals(told: list[dict[str, Any]]) -> list[float]:
    """What each job had counted at its end."""
    ended = [item["totals"] for item in told if item["cmd"] == "totals"]
    return [sum(total for *_, total in found) for found in ended]


@pytest.mark.parametrize(
    ("body", "code", "end"),
    [
        ("job = track(unit='image').start(); job.count(3)", 0, ("completed", None)),
        ("track().start(); raise ValueError('boom')", 1, ("failed", None)),
        ("track().start()\ntry: 1 / 0\nexcept ZeroDivisionError: pass", 0, ("completed", None)),
    ],
)
def test_a_forgotten_stop_ends_the_job_as_the_script(tmp_path, body, code, end):
    told, done = run_script(tmp_path, body)
    assert (done.returncode, ends(told)) == (code, [end])
    assert totals(told) == [3.0 if "count" in body else 0.0]


def test_a_forked_child_starts_a_meter_only_when_the_job_has_ended(tmp_path):
    body = """
with track() as job:
    pid = os.fork()
    if pid == 0:
        with track() as mine:
            assert mine.id == job.id
            mine.count(5)
        while job._session.client.alive:
            time.sleep(0.01)
        with track() as later:
            assert later.id == job.id
            later.count(7)
        os._exit(0)
    time.sleep(0.5)
os.waitpid(pid, 0)
"""
    told, _ = run_script(tmp_path, "import time\n" + body)
    starts = [item for item in told if item["cmd"] == "start"]
    assert [item["cmd"] for item in told].count("meter") == 2
    assert [item["role"] for item in starts] == ["track", "worker", "track"]
    assert len({item["job_id"] for item in starts}) == 1
    assert totals(told) == [5.0, 7.0]
    assert ends(told) == [("completed", None)] * 2


def test_the_real_launch_leaves_no_child_for_os_wait(tmp_path):
    body = """
import os
from gramwatt import track
with track():
    try:
        os.wait()
        print("a child")
    except ChildProcessError:
        print("no child")
"""
    environ = {**os.environ, "GRAMWATT_HOME": str(tmp_path)}
    environ.pop("GRAMWATT_OFF", None)
    done = subprocess.run(
        [sys.executable, "-c", body], capture_output=True, text=True, env=environ, timeout=30
    )
    assert (done.returncode, done.stdout) == (0, "no child\n")
