"""Evidence of a month: the jobs are scored again, and then summed again."""

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
from gramwatt.service.evidence import export as evidence
from gramwatt.service.evidence.export import export
from gramwatt.service.evidence.verify import EvidenceError
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.intake.local_spool import open_store
from gramwatt.service.store.models import Job
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.evidence.conftest import at_home
from tests.service.evidence.forge import changed, members, sealed, verify, with_json

EVERY = "every figure of 4 scores, scored again"


def test_a_months_bundle_has_its_jobs_and_their_sums(month: bytes) -> None:
    document = json.loads(members(month)["month.json"])
    # job-1 and the three runs: 3 + 5 + 3 + 3 minutes of 600 W = 504 kJ = 0.14 kWh.
    assert document["totals"]["energy_kwh"]["value"] == pytest.approx(0.14, rel=1e-12)
    assert document["previous"]["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    found = verify(month)
    assert (found.outcome, found.wrong) == ("proven", [])
    assert EVERY in found.equal
    assert len(found.trusted) == 3


@pytest.mark.parametrize(
    "figure",
    [
        "totals.embodied_g.value",
        "changes.total_g.low",
        "previous.energy_kwh.value",
        "days.0.operational_g.value",
        "top_jobs.0.total_g.value",
        "projects.0.g_per_unit.value",
        "projects.0.project",
        "factors.0.factor_g_per_kwh.low",
        "sources.0",
        "data_quality",
        "by_state",
    ],
)
def test_a_changed_figure_or_row_is_named(month: bytes, figure: str) -> None:
    place = figure
    document = json.loads(members(month)["month.json"])
    for name in figure.split("."):
        document = document[int(name) if isinstance(document, list) else name]

    def change(whole: Any) -> None:
        if isinstance(document, dict | list) and "." not in figure:
            del whole[figure]
        else:
            changed(figure)(whole)

    wrong = verify(with_json(month, "month.json", change)).wrong
    assert [text for text in wrong if text.startswith(f"month.json: {place}")]


def removed(name: str) -> Callable[[dict[str, bytes]], None]:
    """A change that takes a run out of a bundle, and out of its list of jobs."""

    def change(files: dict[str, bytes]) -> None:
        about = json.loads(files["evidence.json"])
        del about["jobs"][name]
        files["evidence.json"] = json.dumps(about).encode()
        for file in [file for file in files if file.startswith(f"jobs/{name}/")]:
            del files[file]

    return change


def test_a_run_that_was_taken_out_is_missed_in_the_sums(month: bytes) -> None:
    files = members(month)
    removed("run-2")(files)
    wrong = verify(sealed(files)).wrong
    assert [text for text in wrong if text.startswith("month.json: ") and "energy_kwh" in text]


def test_the_month_before_is_compared_by_its_parts(month: bytes) -> None:
    files = members(month)
    files["month-before.ndjson"] = b""
    wrong = verify(sealed(files)).wrong
    assert any(text.startswith("month.json: previous is ") for text in wrong)
    del files["month-before.ndjson"]
    found = verify(sealed(files))
    assert (found.outcome, len(found.not_compared)) == ("proven-in-part", 1)
    for hostile in (b"{}", b"[" * 100_000, b'{"job_id": 1}'):
        files["month-before.ndjson"] = hostile
        try:
            wrong = verify(sealed(files)).wrong
        except EvidenceError as error:
            wrong = [error.message]
        assert wrong


@pytest.mark.parametrize("content", [b"[]", b'{"a": []}'])
def test_documents_that_are_none_are_named_and_never_crash(month: bytes, content: bytes) -> None:
    files = members(month)
    for name in [name for name in files if name.endswith("json")]:
        try:
            wrong = verify(sealed({**files, name: content})).wrong
        except EvidenceError as error:
            wrong = [error.message]
        assert wrong, name


def test_a_job_whose_intervals_were_deleted_keeps_its_score_as_stated(world: Path) -> None:
    service = open_store(world / "home")
    for name in ("kept", "bare"):
        records = journal(name, project="old", start=START + timedelta(days=124))
        ingest(service, name, lines(records))
    assert gramwatt("jobs")[0] == 0
    with service.store.write() as session:
        session.execute(sa.update(Job).where(Job.job_id == "bare").values(intervals_deleted_us=1))
    service.store.close()
    assert gramwatt("evidence", "export", "2026-09", "--project", "old", "-o", "old.zip")[0] == 0
    content = (world / "old.zip").read_bytes()
    assert not any(n.startswith("jobs/bare/j") for n in members(content))
    found = verify(content)
    assert (found.outcome, found.wrong) == ("proven-in-part", [])
    assert "every figure of the score, scored again" in found.equal
    text = "jobs/bare/score.json: its intervals were deleted, so it cannot be scored again"
    assert text in found.not_compared
    assert "the scores of 1 job without intervals, as stated" in found.trusted[0]
    code, out, err = gramwatt("evidence", "verify", "old.zip")
    assert (code, err) == (3, "")
    assert out.startswith(
        f"proven in part: nothing differs, and this was not compared:\nnot compared {text}"
    )
    name = "jobs/bare/score.json"
    other = with_json(content, name, lambda d: d["energy_kwh"].update(value=1.0))
    assert verify(other).wrong == [f"{name}: is malformed: it cannot be summed"]
    other = with_json(content, name, lambda d: d["energy_kwh"].update(value=0.03 * (1 + 1e-6)))
    assert any("energy_kwh" in text for text in verify(other).wrong)
    code, _, err = gramwatt("evidence", "export", "bare")
    assert (code, err.count("\n")) == (1, 1)
    assert "intervals" in err


def test_sums_that_another_order_rounds_otherwise_are_equal(world: Path) -> None:
    """The store sums in the order of arrival, the bundle in that of the jobs' starts."""
    service = open_store(world / "home")
    for number in range(16):
        start = START + timedelta(days=250, minutes=-10 * number)
        about = {"start": start, "project": "order", "power_w": 100.1 + 33.7 * number}
        ingest(service, f"order-{number}", lines(journal(f"order-{number}", **about)))
    service.store.close()
    assert (
        gramwatt("evidence", "export", "2027-01", "--project", "order", "-o", "order.zip")[0] == 0
    )
    content = (world / "order.zip").read_bytes()
    assert verify(content).wrong == []

    def change(document: Any) -> None:
        document["days"][0]["energy_kwh"]["value"] *= 1 + 1e-8

    wrong = verify(with_json(content, "month.json", change)).wrong
    assert wrong[0].startswith("month.json: days.0.energy_kwh.value is ")


def test_what_an_id_names(world: Path, month: bytes) -> None:
    code, _, err = gramwatt("evidence", "export", "2031-01")
    assert (code, err) == (1, "gramwatt: no job in 2031-01\n")
    code, _, err = gramwatt("evidence", "export", "job-9")
    assert code == 1
    assert err.startswith("gramwatt: unknown job 'job-9'; close ids: job-1")
    code, _, err = gramwatt("evidence", "export", "job-1", "--project", "vision")
    assert (code, err) == (2, "gramwatt: --project is for a month; a job's id says which job\n")
    code, out, _ = gramwatt("evidence", "export", "2026-05", "--project", "vision")
    assert (code, out) == (0, "2026-05-vision.zip\n")
    assert verify((world / "2026-05-vision.zip").read_bytes()).wrong == []


def test_more_jobs_than_a_bundle_holds_are_one_line(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "JOBS_MOST", 2)
    code, _, err = gramwatt("evidence", "export", "2026-05", "-o", "most.zip")
    said = "gramwatt: month 2026-05 has 4 jobs; an evidence bundle holds 2\n"
    assert (code, err, (world / "most.zip").exists()) == (1, said, False)


def test_a_months_bundle_holds_though_its_jobs_change_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process adds, corrects, excludes and deletes jobs between those that are added."""
    at_home(monkeypatch, tmp_path)
    service = open_store(tmp_path / "home")
    for n in range(5):
        records = journal(f"job-{n}", start=START + timedelta(hours=n), minutes=10)
        ingest(service, f"job-{n}", lines(records))
    before = journal("earlier", start=START - timedelta(days=30), minutes=10)
    ingest(service, "earlier", lines(before))
    added: list[str] = []

    def meanwhile(ids: Sequence[str]) -> Iterator[str]:
        first = not added
        for job_id in ids:
            yield job_id
            added.append(job_id)
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
    export(service, stream, "month", "2026-05", progress=meanwhile)
    service.store.close()
    # What did not change is added once: job-0 again, and the late one.
    assert added == ["job-0", "job-1", "job-2", "job-3", "job-4", "job-0", "late"]
    files = members(stream.getvalue())
    assert list(json.loads(files["evidence.json"])["jobs"]) == ["job-0", "job-2", "job-4", "late"]
    assert not [name for name in files if name.startswith(("jobs/job-1/", "jobs/job-3/"))]
    month = json.loads(files["month.json"])
    # 600 W for 10, 10, 10 and 20 minutes are 0.1, 0.1, 0.1 and 0.2 kWh, those of job-0 at PUE 2.
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.5, rel=1e-12)
    found = verify(stream.getvalue())
    assert found.wrong == []
    assert EVERY in found.equal


def test_a_job_of_a_month_that_runs_for_a_moment_and_ends_as_before_is_added(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    usual = evidence._add_job

    def add(service: Any, files: Any, job_id: str, **how: bool) -> Any:
        if not refused:
            refused.append(job_id)
            raise StillRunsError(job_id)
        return usual(service, files, job_id, **how)

    monkeypatch.setattr(evidence, "_add_job", add)
    assert gramwatt("evidence", "export", "2026-05", "-o", "moment.zip")[0] == 0
    content = (world / "moment.zip").read_bytes()
    (world / "moment.zip").unlink()
    assert refused[0] in json.loads(members(content)["evidence.json"])["jobs"]
    assert verify(content).wrong == []


@pytest.mark.long
def test_a_month_whose_jobs_never_rest_is_refused(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(100))
    monkeypatch.setattr(evidence, "month_made_of", lambda *_: str(next(numbers)))
    code, out, err = gramwatt("evidence", "export", "2026-05", "-o", "busy.zip")
    assert (code, out) == (1, "")
    assert err == "gramwatt: the jobs of 2026-05 change all the time; try again later\n"
    assert not (world / "busy.zip").exists()


def test_provisional_scores_are_exported_and_the_month_says_which_share_they_are(
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
    assert gramwatt("evidence", "export", "GB", "-o", "job.zip")[0] == 0
    files = members((tmp_path / "job.zip").read_bytes())
    assert json.loads(files["jobs/GB/score.json"])["provisional"] is True
    assert verify((tmp_path / "job.zip").read_bytes()).wrong == []

    assert gramwatt("evidence", "export", month, "-o", "month.zip")[0] == 0
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
