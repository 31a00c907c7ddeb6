"""Packs of a model and of a month: the jobs are scored again, and then summed again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gramwatt.service.common.errors import StillRunsError
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.intake.local_spool import open_store
from gramwatt.service.packs import collect
from gramwatt.service.packs.archive import PackError
from gramwatt.service.packs.collect import make_pack
from gramwatt.service.store.models import Job
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.packs.conftest import at_home
from tests.service.packs.forge import light, members, sealed, verify, with_json


def test_a_models_pack_has_every_run_and_their_sums(packs: dict[str, bytes]) -> None:
    files = members(packs["model"])
    parts = {part["persona"]: part for part in json.loads(files["model.json"])["parts"]}
    # Five minutes and three of 600 W: 288 kJ = 0.08 kWh; the failed run counts.
    assert parts["provider"]["energy_kwh"]["value"] == pytest.approx(0.08, rel=1e-12)
    assert parts["consumer"]["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    assert sorted(n.split("/")[1] for n in files if n.endswith("score.json")) == [
        "run-1",
        "run-2",
        "use-1",
    ]
    found = verify(packs["model"])
    assert (found.wrong, found.scores_equal) == ([], 3)


def test_a_months_pack_has_its_jobs_and_their_sums(packs: dict[str, bytes]) -> None:
    files = members(packs["month"])
    month = json.loads(files["month.json"])
    # job-1 and the three runs: 3 + 5 + 3 + 3 minutes of 600 W = 504 kJ = 0.14 kWh.
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.14, rel=1e-12)
    assert month["previous"]["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    assert files["report.pdf"].startswith(b"%PDF-")
    found = verify(packs["month"])
    assert (found.wrong, found.scores_equal) == ([], 4)


@pytest.mark.parametrize(
    ("kind", "figure"),
    [
        ("model", "parts.0.total_g.value"),
        ("model", "parts.1.sci.0.g_per_unit.high"),
        ("month", "totals.embodied_g.value"),
        ("month", "changes.total_g.low"),
        ("month", "previous.energy_kwh.value"),
        ("month", "days.0.operational_g.value"),
        ("month", "top_jobs.0.total_g.value"),
        ("month", "projects.0.g_per_unit.value"),
    ],
)
def test_a_changed_sum_is_named(packs: dict[str, bytes], kind: str, figure: str) -> None:
    def double(document: Any) -> None:
        *above, last = figure.split(".")
        for name in above:
            document = document[int(name) if isinstance(document, list) else name]
        document[last] *= 2

    found = verify(with_json(packs[kind], f"{kind}.json", double))
    named = [text for text in found.wrong if text.startswith(f"{kind}.json: {figure} is ")]
    assert len(named) == 1


def removed(name: str) -> Callable[[dict[str, bytes]], None]:
    """A change that takes a run out of a pack, and out of its list of jobs."""

    def change(files: dict[str, bytes]) -> None:
        about = json.loads(files["pack.json"])
        del about["revisions"][name]
        files["pack.json"] = json.dumps(about).encode()
        for file in [file for file in files if file.startswith(f"jobs/{name}/")]:
            del files[file]

    return change


@pytest.mark.parametrize("kind", ["model", "month"])
def test_a_run_that_was_taken_out_is_missed_in_the_sums(packs: dict[str, bytes], kind: str) -> None:
    files = members(packs[kind])
    removed("run-2")(files)
    wrong = verify(sealed(files)).wrong
    assert [text for text in wrong if text.startswith(f"{kind}.json: ") and "energy_kwh" in text]


def test_a_run_that_was_taken_out_with_its_sums_has_no_such_figure(packs: dict[str, bytes]) -> None:
    """A later job cannot be put in either: its folder would be a foreign file."""
    files = members(packs["model"])
    files["jobs/other/score.json"] = files["jobs/run-1/score.json"]
    assert verify(sealed(files)).wrong == ["jobs/other/score.json: is no file of such a pack"]


def test_the_month_before_is_compared_by_its_parts(packs: dict[str, bytes]) -> None:
    files = members(packs["month"])
    files["inputs/month-before.ndjson"] = b""
    wrong = verify(sealed(files)).wrong
    assert any(text.startswith("month.json: previous is ") for text in wrong)
    for hostile in (b"{}", b"[" * 100_000, b'{"job_id": 1}'):
        files["inputs/month-before.ndjson"] = hostile
        assert verify(sealed(files)).wrong


@pytest.mark.parametrize("content", [b"[]", b'{"a": []}'])
def test_documents_that_are_none_are_named_and_never_crash(
    packs: dict[str, bytes], content: bytes
) -> None:
    for pack in packs.values():
        files = members(pack)
        for name in [name for name in files if name.endswith("json")]:
            try:
                wrong = verify(sealed({**files, name: content})).wrong
            except PackError as error:
                wrong = [error.message]
            assert wrong, name


def test_a_job_whose_intervals_were_deleted_keeps_its_score_as_stated(world: Path) -> None:
    service = open_store(world / "home")
    for name in ("kept", "bare"):
        records = journal(name, model_id="org/old", start=START + timedelta(days=124))
        ingest(service, name, lines(records))
    assert gramwatt("jobs")[0] == 0
    with service.store.write() as session:
        session.execute(sa.update(Job).where(Job.job_id == "bare").values(intervals_deleted_us=1))
    service.store.close()
    assert gramwatt("export", "pack", "org/old", "-o", "old.zip")[0] == 0
    content = (world / "old.zip").read_bytes()
    assert not any(n.startswith("jobs/bare/j") for n in members(content))
    found = verify(content)
    assert (found.wrong, found.scores_equal) == ([], 1)
    assert any(t.startswith("jobs/bare/score.json: the inputs") for t in found.not_checked)
    changed = with_json(content, "jobs/bare/score.json", lambda d: d["total_g"].update(value=1.0))
    assert verify(changed).wrong
    code, _, err = gramwatt("export", "pack", "bare")
    assert (code, err.count("\n")) == (1, 1)
    assert "intervals" in err


def test_sums_that_another_order_rounds_otherwise_are_equal(world: Path) -> None:
    """The store sums in the order of arrival, the pack in that of the jobs' starts."""
    service = open_store(world / "home")
    for number in range(16):
        start = START + timedelta(days=250, minutes=-10 * number)
        about = {"start": start, "project": "order", "power_w": 100.1 + 33.7 * number}
        ingest(service, f"order-{number}", lines(journal(f"order-{number}", **about)))
    service.store.close()
    assert gramwatt("export", "pack", "2027-01", "--project", "order", "-o", "order.zip")[0] == 0
    content = light((world / "order.zip").read_bytes())
    assert verify(content).wrong == []

    def change(document: Any) -> None:
        document["days"][0]["energy_kwh"]["value"] *= 1 + 1e-8

    wrong = verify(with_json(content, "month.json", change)).wrong
    assert wrong[0].startswith("month.json: days.0.energy_kwh.value is ")


def test_what_an_id_names(world: Path, packs: dict[str, bytes]) -> None:
    code, _, err = gramwatt("export", "pack", "2031-01")
    assert (code, err) == (1, "gramwatt: no job in 2031-01\n")
    code, _, err = gramwatt("export", "pack", "job-9")
    assert code == 1
    assert err.startswith("gramwatt: unknown job 'job-9'; close ids: job-1")
    code, out, _ = gramwatt("export", "pack", "job-1", "--project", "vision")
    assert (code, out) == (0, "job-1-vision.zip\n")
    code, _, err = gramwatt("export", "pack", "job-1", "--project", "other")
    assert (code, err.startswith("gramwatt: unknown job 'job-1'")) == (1, True)
    code, out, _ = gramwatt("export", "pack", "2026-05", "--project", "vision")
    assert (code, out) == (0, "2026-05-vision.zip\n")
    assert verify((world / "2026-05-vision.zip").read_bytes()).wrong == []


def test_more_jobs_than_a_pack_holds_are_one_line(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(collect.JOBS_MOST, "model", 2)
    code, _, err = gramwatt("export", "pack", "org/net")
    assert (code, err) == (1, "gramwatt: model org/net has 3 jobs; a pack holds 2\n")


def test_a_months_pack_holds_though_its_jobs_change_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process adds, corrects, excludes and deletes jobs between those that are packed."""
    at_home(monkeypatch, tmp_path)
    service = open_store(tmp_path / "home")
    for n in range(5):
        records = journal(f"job-{n}", start=START + timedelta(hours=n), minutes=10)
        ingest(service, f"job-{n}", lines(records))
    before = journal("earlier", start=START - timedelta(days=30), minutes=10)
    ingest(service, "earlier", lines(before))
    packed: list[str] = []

    def meanwhile(ids: Sequence[str]) -> Iterator[str]:
        first = not packed
        for job_id in ids:
            yield job_id
            packed.append(job_id)
            if first and job_id == "job-2":
                late = journal("late", start=START + timedelta(hours=9), minutes=20)
                ingest(service, "late", lines(late))
                assert gramwatt("job", "job-0", "--set", "pue=2")[0] == 0
                assert (
                    gramwatt("job", "job-1", "--set", "excluded=true", "--set", "reason=twice")[0]
                    == 0
                )
                assert gramwatt("job", "earlier", "--set", "pue=2")[0] == 0
                assert gramwatt("rm", "job-3", "--yes")[0] == 0

    stream = BytesIO()
    make_pack(service, stream, "month", "2026-05", each=meanwhile)
    service.store.close()
    # What did not change is packed once: job-0 again, and the late one.
    assert packed == ["job-0", "job-1", "job-2", "job-3", "job-4", "job-0", "late"]
    files = members(stream.getvalue())
    assert list(json.loads(files["pack.json"])["revisions"]) == ["job-0", "job-2", "job-4", "late"]
    assert not [name for name in files if name.startswith(("jobs/job-1/", "jobs/job-3/"))]
    month = json.loads(files["month.json"])
    # 600 W for 10, 10, 10 and 20 minutes are 0.1, 0.1, 0.1 and 0.2 kWh, those of job-0 at PUE 2.
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.5, rel=1e-12)
    found = verify(stream.getvalue())
    assert (found.wrong, found.scores_equal) == ([], 4)


def test_a_job_of_a_month_that_runs_for_a_moment_and_ends_as_before_is_packed(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    usual = collect._add_job

    def add(service: Any, files: Any, job_id: str, kind: str) -> Any:
        if not refused:
            refused.append(job_id)
            raise StillRunsError(job_id)
        return usual(service, files, job_id, kind)

    monkeypatch.setattr(collect, "_add_job", add)
    assert gramwatt("export", "pack", "2026-05", "-o", "moment.zip")[0] == 0
    content = (world / "moment.zip").read_bytes()
    (world / "moment.zip").unlink()
    assert refused[0] in json.loads(members(content)["pack.json"])["revisions"]
    assert verify(content).wrong == []


@pytest.mark.long
def test_a_month_whose_jobs_never_rest_is_refused(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(100))
    monkeypatch.setattr(collect, "month_made_of", lambda *_: str(next(numbers)))
    code, out, err = gramwatt("export", "pack", "2026-05", "-o", "busy.zip")
    assert (code, out) == (1, "")
    assert err == "gramwatt: the jobs of 2026-05 change all the time; try again later\n"
    assert not (world / "busy.zip").exists()


def test_provisional_scores_are_packed_and_the_month_says_which_share_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two jobs of equal energy one is in GB, whose hours a provider is still to give."""
    at_home(monkeypatch, tmp_path)
    monkeypatch.setenv("GRAMWATT_INTENSITY", "GB=uk; FR=off")
    monkeypatch.setenv("GRAMWATT_UK_URL", "http://127.0.0.1:9")  # nobody answers there
    service = open_store(tmp_path / "home")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    month = f"{start:%Y-%m}"  # the jobs lie within one hour, and so within one month
    for zone in ("GB", "FR"):
        ingest(service, zone, lines(journal(zone, start=start, zone=zone)))
    service.store.close()
    assert gramwatt("export", "pack", "GB", "-o", "job.zip")[0] == 0
    files = members((tmp_path / "job.zip").read_bytes())
    assert json.loads(files["jobs/GB/score.json"])["provisional"] is True
    assert verify((tmp_path / "job.zip").read_bytes()).wrong == []

    assert gramwatt("export", "pack", month, "-o", "month.zip")[0] == 0
    content = (tmp_path / "month.zip").read_bytes()
    files = members(content)
    found = json.loads(files["month.json"])["provisional"]
    # 600 W for three minutes: 0.03 kWh.
    assert (found["jobs"], found["energy_kwh"]["value"]) == (1, pytest.approx(0.03, rel=1e-12))
    assert verify(content).wrong == []
    final = with_json(content, "jobs/GB/score.json", lambda d: d.update(provisional=False))
    named = "jobs/GB/score.json: provisional is false, computed again true"
    assert named in verify(final).wrong
    assert gramwatt("report", "month", month, "--format", "html")[0] == 0
    page = (tmp_path / f"{month}.html").read_text("utf-8")
    assert "50\u202f% of energy provisional: its grid intensity is not final" in page
