"""Evidence of a month: the jobs are scored again, and then summed again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec import structs

from gramwatt.service import evidence
from gramwatt.service.common.errors import StillRunsError
from gramwatt.service.evidence import OF_JOBS, EvidenceError, export
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.local_spool import open_store
from gramwatt.service.store.models import Job
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.evidence.conftest import at_home
from tests.service.evidence.forge import changed, members, numbers, sealed, verify, with_json
from tests.service.keyed import add, store_of

EVERY = "every figure of 4 scores, scored again"


def test_a_months_bundle_has_its_jobs_and_their_sums(month):
    document = json.loads(members(month)["month.json"])
    # job-1 and the three runs: 3 + 5 + 3 + 3 minutes of 600 W = 504 kJ = 0.14 kWh.
    assert document["totals"]["energy_kwh"]["value"] == pytest.approx(0.14, rel=1e-12)
    assert document["previous"]["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    found = verify(month)
    assert (found.outcome, found.wrong) == ("proven", [])
    assert EVERY in found.equal
    assert len(found.trusted) == 3


def test_any_figure_or_table_of_a_month_that_is_changed_is_named(month, monkeypatch):
    monkeypatch.setattr(evidence, "DIFFERENCES_MOST", 10_000)
    document = json.loads(members(month)["month.json"])
    checked = {name: of for name, of in document.items() if name not in evidence.OF_STORE}
    paths = [*numbers(checked), "projects.0.project", "sources.0"]
    assert len(paths) > 300
    wrong = verify(with_json(month, "month.json", changed(*paths))).wrong
    assert not [path for path in paths if not any(f": {path} is " in text for text in wrong)]
    tables = {name for name, of in checked.items() if of and isinstance(of, dict | list)}
    needed = {"trend", "factors"}  # what is compared follows from both

    def without_tables(whole: Any) -> None:
        for name in tables - needed:
            whole[name] = type(whole[name])()

    wrong = verify(with_json(month, "month.json", without_tables)).wrong
    assert tables - needed <= {text.split()[1].partition(".")[0] for text in wrong}
    assert {"totals", "days", "projects", "models", "by_state", "method", "previous"} < tables


def without(files: dict[str, bytes], job_id: str) -> dict[str, bytes]:
    """The files of a bundle without a run, and without it in its number of jobs."""
    about = json.loads(files["evidence.json"])
    about["jobs"] -= 1
    found = {**files, "evidence.json": json.dumps(about).encode()}
    for name in OF_JOBS:
        lines_ = files[name].splitlines(keepends=True)
        found[name] = b"".join(x for x in lines_ if json.loads(x)["job_id"] != job_id)
    return found


def test_a_run_that_was_taken_out_is_missed_in_the_sums(month):
    wrong = verify(sealed(without(members(month), "run-2"))).wrong
    assert [text for text in wrong if text.startswith("month.json: ") and "energy_kwh" in text]


def test_what_the_month_is_compared_with_is_the_sums_of_the_months_before(month):
    def change(sums: Any) -> None:
        for end in ("value", "low", "high"):
            sums["2026-04"]["totals"]["energy_kwh"][end] *= 2

    found = verify(month)
    assert "the sums in months-before.json" in found.trusted[2]
    wrong = verify(with_json(month, "months-before.json", change)).wrong
    assert any(text.startswith("month.json: previous.energy_kwh.value is ") for text in wrong)
    for hostile in (b"[]", b'{"2026-04": 1}', b'{"2026-04": {}}'):
        with pytest.raises(EvidenceError):
            verify(sealed({**members(month), "months-before.json": hostile}))


@pytest.mark.parametrize("content", [b"[]", b'{"a": []}'])
def test_documents_that_are_none_are_named_and_never_crash(month, content):
    files = members(month)
    for name in [name for name in files if name.endswith("json") or name in OF_JOBS]:
        try:
            wrong = verify(sealed({**files, name: content})).wrong
        except EvidenceError as error:
            wrong = [error.message]
        assert wrong, name


def test_a_job_whose_intervals_were_deleted_keeps_its_score_as_stated(world):
    with store_of(world / "home") as service:
        for name in ("kept", "bare"):
            records = journal(name, project="old", start=START + timedelta(days=124))
            ingest(service, name, lines(records))
        assert gramwatt("jobs")[0] == 0
        with service.store.write() as session:
            session.execute(
                sa.update(Job).where(Job.job_id == "bare").values(intervals_deleted_us=1)
            )
    assert gramwatt("evidence", "export", "2026-09", "--project", "old", "-o", "old.zip")[0] == 0
    content = (world / "old.zip").read_bytes()
    assert b'"bare"' not in members(content)["journals.ndjson"] + members(content)["inputs.ndjson"]
    found = verify(content)
    assert (found.outcome, found.wrong) == ("proven-in-part", [])
    assert "every figure of the score, scored again" in found.equal
    text = "scores.ndjson: bare: its intervals were deleted: not scored again"
    assert text in found.not_compared
    assert "the scores of 1 job without intervals, as stated" in found.trusted[0]
    code, out, err = gramwatt("evidence", "verify", "old.zip")
    assert (code, err) == (3, "")
    assert out.startswith(
        f"proven in part: nothing differs, and this was not compared:\nnot compared {text}"
    )
    for value in (1.0, 0.03 * (1 + 1e-6)):

        def change(score: Any, value: float = value) -> None:
            score["energy_kwh"].update(value=value, high=max(value, 0.04))

        wrong = verify(with_json(content, "scores.ndjson", change, "bare")).wrong
        assert any("energy_kwh" in text or "malformed" in text for text in wrong)
    code, _, err = gramwatt("evidence", "export", "bare")
    assert (code, err.count("\n")) == (1, 1)
    assert "intervals" in err


def test_sums_that_another_order_rounds_otherwise_are_equal(world):
    """The store sums in the order of arrival, the bundle in that of the jobs' starts."""
    with store_of(world / "home") as service:
        for number in range(16):
            start = START + timedelta(days=250, minutes=-10 * number)
            about = {"start": start, "project": "order", "power_w": 100.1 + 33.7 * number}
            add(service, f"order-{number}", **about)
    assert (
        gramwatt("evidence", "export", "2027-01", "--project", "order", "-o", "order.zip")[0] == 0
    )
    content = (world / "order.zip").read_bytes()
    assert verify(content).wrong == []

    def change(document: Any) -> None:
        document["days"][0]["energy_kwh"]["value"] *= 1 + 1e-8

    wrong = verify(with_json(content, "month.json", change)).wrong
    assert wrong[0].startswith("month.json: days.0.energy_kwh.value is ")


def test_a_kept_month_verifies_though_the_month_before_it_changed_since(tmp_path, monkeypatch):
    at_home(monkeypatch, tmp_path)
    with store_of(tmp_path / "home") as service:
        for month in (4, 5):
            records = journal(f"job-{month}", start=START.replace(month=month))
            ingest(service, f"job-{month}", lines(records))
    assert gramwatt("report", "month", "2026-05", "--format", "json")[0] == 0
    assert gramwatt("job", "job-4", "--set", "pue=2")[0] == 0
    assert gramwatt("evidence", "export", "2026-05", "-o", "may.zip")[0] == 0
    content = (tmp_path / "may.zip").read_bytes()
    assert json.loads(members(content)["month.json"])["revision"] == 1
    assert verify(content).wrong == []


def test_what_an_id_names(world, month):
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


def test_a_months_bundle_holds_though_its_jobs_change_while_it_is_made(tmp_path, monkeypatch):
    """Another process adds, corrects, excludes and deletes jobs between those that are added."""
    at_home(monkeypatch, tmp_path)
    service = open_store(tmp_path / "home")
    for n in range(5):
        records = journal(f"job-{n}", start=START + timedelta(hours=n), minutes=10)
        ingest(service, f"job-{n}", lines(records))
    before = journal("earlier", start=START - timedelta(days=30), minutes=10)
    ingest(service, "earlier", lines(before))
    steps: list[tuple[int, int]] = []

    def meanwhile(done: int, of: int) -> None:
        steps.append((done, of))
        if len(steps) == 4:  # job-0, job-1 and job-2 were added
            late = journal("late", start=START + timedelta(hours=9), minutes=20)
            ingest(service, "late", lines(late))
            assert gramwatt("job", "job-0", "--set", "pue=2")[0] == 0
            assert (
                gramwatt("job", "job-1", "--set", "excluded=true", "--set", "reason=twice")[0] == 0
            )
            assert gramwatt("job", "earlier", "--set", "pue=2")[0] == 0
            assert gramwatt("rm", "job-3", "--yes")[0] == 0

    stream = BytesIO()
    export(service, stream, "month", "2026-05", progress=meanwhile)
    service.store.close()
    # What did not change is added once: job-0 again, and the late one.
    assert steps == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (0, 2), (1, 2)]
    files = members(stream.getvalue())
    scores = [json.loads(line)["job_id"] for line in files["scores.ndjson"].splitlines()]
    assert scores == ["job-0", "job-2", "job-4", "late"]
    month = json.loads(files["month.json"])
    # 600 W for 10, 10, 10 and 20 minutes are 0.1, 0.1, 0.1 and 0.2 kWh, those of job-0 at PUE 2.
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.5, rel=1e-12)
    found = verify(stream.getvalue())
    assert found.wrong == []
    assert EVERY in found.equal


def test_a_job_of_a_month_that_runs_for_a_moment_and_ends_as_before_is_added(world, monkeypatch):
    refused: list[str] = []
    usual = evidence.scored_inputs

    def once(service: Any, job_id: str) -> Any:
        if not refused:
            refused.append(job_id)
            raise StillRunsError(job_id)
        return usual(service, job_id)

    monkeypatch.setattr(evidence, "scored_inputs", once)
    assert gramwatt("evidence", "export", "2026-05", "-o", "moment.zip")[0] == 0
    content = (world / "moment.zip").read_bytes()
    (world / "moment.zip").unlink()
    assert refused[0].encode() in members(content)["scores.ndjson"]
    assert verify(content).wrong == []


@pytest.mark.long
def test_a_month_whose_jobs_never_rest_is_refused(world, monkeypatch):
    usual, numbers = evidence.job_rows, iter(range(1, 100))

    def changing(*of: Any) -> Any:
        return [structs.replace(row, revision=next(numbers)) for row in usual(*of)]

    monkeypatch.setattr(evidence, "job_rows", changing)
    code, out, err = gramwatt("evidence", "export", "2026-05", "-o", "busy.zip")
    assert (code, out) == (1, "")
    assert err == "gramwatt: the jobs of 2026-05 change all the time; try again later\n"
    assert not (world / "busy.zip").exists()


def test_provisional_scores_are_exported_and_the_month_says_which_share_they_are(
    tmp_path, monkeypatch
):
    """Of two jobs of equal energy one is in GB, whose hours a provider is still to give."""
    at_home(monkeypatch, tmp_path)
    monkeypatch.setenv("GRAMWATT_INTENSITY", "GB=uk; FR=off")
    monkeypatch.setenv("GRAMWATT_UK_URL", "http://127.0.0.1:9")  # nobody answers there
    with store_of(tmp_path / "home") as service:
        start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
        month = f"{start:%Y-%m}"  # the jobs lie within one hour, and so within one month
        for zone in ("GB", "FR"):
            add(service, zone, start=start, zone=zone)
    assert gramwatt("evidence", "export", "GB", "-o", "job.zip")[0] == 0
    files = members((tmp_path / "job.zip").read_bytes())
    assert json.loads(files["scores.ndjson"])["provisional"] is True
    assert verify((tmp_path / "job.zip").read_bytes()).wrong == []

    assert gramwatt("evidence", "export", month, "-o", "month.zip")[0] == 0
    content = (tmp_path / "month.zip").read_bytes()
    files = members(content)
    found = json.loads(files["month.json"])["provisional"]
    # 600 W for three minutes: 0.03 kWh.
    assert (found["jobs"], found["energy_kwh"]["value"]) == (1, pytest.approx(0.03, rel=1e-12))
    assert verify(content).wrong == []
    final = with_json(content, "scores.ndjson", lambda d: d.update(provisional=False), "GB")
    named = "scores.ndjson: GB: provisional is false, computed again true"
    assert named in verify(final).wrong
    assert gramwatt("report", "month", month, "--format", "html")[0] == 0
    page = (tmp_path / f"{month}.html").read_text("utf-8")
    assert "grid intensity of 50\u202f% of energy may still change" in page
