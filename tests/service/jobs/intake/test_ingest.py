"""Ingest: whatever arrives, however often and in whatever order, counts once and is answered."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.records.records import IntervalRecord, decode, encode
from gramwatt.service.common.answers import Acknowledged
from gramwatt.service.common.errors import UnknownJobError
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import MOST_SPANS, Arrived, ingest
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.months.report import month_report
from gramwatt.service.store.columns import to_text
from gramwatt.service.store.journal import Interval
from gramwatt.service.store.migrate import upgrade
from tests.journals import MINUTE, journal, lines
from tests.service.keyed import add

# 3 minutes at 600 W: 3 x 60 s x 600 W = 108 000 J = 0.03 kWh.
ENERGY_KWH = 0.03


def energy_kwh(service, job_id="job-1"):
    return job_document(service, job_id).document.energy_kwh.value


def test_a_whole_journal_is_scored_once_it_has_ended(service):
    answer = add(service)
    assert msgspec.to_builtins(answer) == {
        "accepted": 9,
        "duplicate": 0,
        "rejected": [],
        "rejected_count": 0,
        "rejected_codes": {},
        "acknowledged": [{"node": "n1", "writer": "w1", "seq": 9}],
    }
    document = job_document(service, "job-1").document
    assert (document.state, document.revision, document.provisional) == ("completed", 1, False)
    assert document.energy_kwh.value == pytest.approx(ENERGY_KWH, rel=1e-12)
    assert [(row.unit, row.count) for row in document.sci] == [("image", 30.0)]


def test_a_job_of_unknown_energy_is_scored_and_said_to_be_missing_from_its_month_s_sums(light):
    records = [record for record in journal() if not isinstance(record, IntervalRecord)]
    assert ingest(light, "job-1", lines(records)).rejected == []
    document = job_document(light, "job-1").document
    unknown = ("energy_kwh", "operational_g", "total_g")
    assert [getattr(document, name) for name in unknown] == [None, None, None]
    assert document.embodied_g.value > 0
    assert (document.state, document.conformance) == ("completed", "not-sci")
    add(light, "job-2")
    totals = month_report(light, "2026-05").totals
    assert (totals.jobs, totals.jobs_unknown) == (2, 1)
    assert totals.energy_kwh.value == pytest.approx(ENERGY_KWH, rel=1e-12)


def test_a_bad_line_is_rejected_alone_by_its_number(light):
    good = lines(journal())
    foreign = encode(replace(decode(good[2]), job_id="other")).encode()
    sent = [good[0], b"{", b"", foreign, *good[1:], b'{"v":1,"type":"dance"}', b"\xff\xfe"]
    answer = ingest(light, "job-1", sent)
    assert answer.accepted == 9
    assert [(row.line, row.code) for row in answer.rejected] == [
        (2, "bad-json"),
        (4, "wrong-job"),
        (13, "unknown-type"),
        (14, "bad-json"),
    ]


def test_acknowledged_is_the_end_of_what_arrived_without_a_gap(light):
    sent = lines(journal())
    first = ingest(light, "job-1", [sent[0], sent[1], sent[4]])
    assert first.acknowledged == [Acknowledged("n1", "w1", 2)]
    second = ingest(light, "job-1", [sent[2], sent[3]])
    assert second.acknowledged == [Acknowledged("n1", "w1", 5)]


def test_of_several_lines_of_an_interval_the_longest_stands_whatever_the_order(service):
    whole = journal(minutes=1)
    interval = whole[2]
    grown = replace(interval, seq=50, end=interval.start + 3 * MINUTE, energy_j=108_000.0)
    stale = replace(interval, writer="w1-open", seq=99, end=interval.end - MINUTE / 2, energy_j=1.0)
    ingest(service, "job-1", lines([whole[0], grown]))
    ingest(service, "job-1", lines([stale, *whole]))
    assert energy_kwh(service) == pytest.approx(ENERGY_KWH, rel=1e-12)


def test_equal_intervals_of_two_writers_are_decided_by_name_on_both_databases(service):
    # "w1" and "W2" sort differently by code point (as the engine does) and by a language's rules.
    whole = journal(minutes=1)
    other = replace(whole[2], writer="W2", energy_j=7.0)
    ingest(service, "job-1", lines([replace(whole[0], writer="W2"), other]))
    ingest(service, "job-1", lines(whole))
    assert energy_kwh(service) == pytest.approx(36_000 / 3.6e6, rel=1e-12)


def test_a_job_runs_until_its_last_writer_has_ended(light):
    first = journal(node="n1", writer="w1", role="track")
    second = journal(node="n2", writer="w2", role="track")
    ingest(light, "job-1", lines(first))
    running = job_document(light, "job-1").document
    assert (running.state, running.provisional) == ("completed", False)
    ingest(light, "job-1", lines(second[:-1]))
    reopened = job_document(light, "job-1").document
    assert (reopened.state, reopened.provisional, reopened.revision) == ("running", True, 2)
    ingest(light, "job-1", lines(second[-1:]))
    final = job_document(light, "job-1").document
    assert (final.state, final.revision) == ("completed", 2)
    # Two GPUs on two nodes, 108 000 J each.
    assert final.energy_kwh.value == pytest.approx(2 * ENERGY_KWH, rel=1e-12)


def test_lines_that_come_after_the_end_make_a_new_revision(light):
    sent = lines(journal())
    ingest(light, "job-1", [*sent[:4], sent[-1]])
    assert energy_kwh(light) == pytest.approx(ENERGY_KWH / 3, rel=1e-12)
    ingest(light, "job-1", sent)
    assert job_document(light, "job-1").document.revision == 2
    assert energy_kwh(light) == pytest.approx(ENERGY_KWH, rel=1e-12)
    old = job_document(light, "job-1", revision=1).document
    assert old.energy_kwh.value == pytest.approx(ENERGY_KWH / 3, rel=1e-12)


def test_a_running_job_is_scored_anew_only_after_a_while(light, clock):
    sent = lines(journal(end_state=None))
    ingest(light, "job-1", sent[:4])
    assert energy_kwh(light) == pytest.approx(ENERGY_KWH / 3, rel=1e-12)
    ingest(light, "job-1", sent[4:])
    clock.turn(seconds=29)
    assert energy_kwh(light) == pytest.approx(ENERGY_KWH / 3, rel=1e-12)
    clock.turn(seconds=2)
    assert energy_kwh(light) == pytest.approx(ENERGY_KWH, rel=1e-12)


def test_a_journal_is_refused_until_its_job_line_has_come(light):
    sent = lines(journal())
    with pytest.raises(UnknownJobError):
        ingest(light, "job-1", sent[1:])
    assert list_jobs(light)[0] == []
    ingest(light, "job-1", [*sent[1:], sent[0]])
    assert energy_kwh(light) == pytest.approx(ENERGY_KWH, rel=1e-12)


def ranks():
    """Three writers on two nodes, with an interval that two of them report."""
    first = journal(node="n1", writer="w1", role="track")
    second = journal(node="n2", writer="w2", role="track")
    third = journal(node="n1", writer="w3", role="track", minutes=2)
    return lines([*first, *second, *third])


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What the three writers come to when everything arrives once, in order."""
    service = fresh(tmp_path_factory.mktemp("reference"))
    ingest(service, "job-1", ranks())
    yield stable(job_document(service, "job-1").document)
    service.store.close()


def fresh(folder: Path) -> Service:
    service = Service.open(ServiceConfig(home=folder, database_url=sqlite_url(folder / "g.db")))
    upgrade(service.store)
    return service


def stable(document):
    """The document without its revision number, which counts the uploads after the end."""
    return to_text(msgspec.structs.replace(document, revision=0))


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_order_and_repetition_of_uploads_gives_the_same_document(
    data, reference, tmp_path_factory
):
    sent = ranks()
    extra = data.draw(st.lists(st.sampled_from(sent), max_size=10))
    # A `job` line makes the job, of whichever writer.
    shuffled = [sent[0], *data.draw(st.permutations([*sent[1:], *extra]))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=3)))
    service = fresh(tmp_path_factory.mktemp("shuffled"))
    counted = 0
    for start, end in zip([0, *cuts], [*cuts, len(shuffled)], strict=True):
        counted += ingest(service, "job-1", shuffled[start:end]).accepted
    assert counted == len(sent)
    assert stable(job_document(service, "job-1").document) == reference
    service.store.close()


@given(st.lists(st.integers(1, 40)))
def test_arrived_numbers_are_those_that_were_added(numbers):
    arrived, model = Arrived(), set()
    for number in numbers:
        assert arrived.add(number) == (number not in model)
        model.add(number)
    highest = next(n for n in range(42) if n + 1 not in model)
    assert arrived.contiguous == highest
    spelled = {n for first, last in arrived.beyond for n in range(first, last + 1)}
    assert spelled == {n for n in model if n > highest}
    assert Arrived.from_row(arrived.contiguous, arrived.to_text()) == arrived


def test_a_writer_that_leaves_gaps_for_ever_stays_small():
    arrived = Arrived()
    for number in range(10, 100_000, 10):
        arrived.add(number)
    assert len(arrived.beyond) == MOST_SPANS
    assert arrived.contiguous == 0
    assert not arrived.add(99_990)


def test_the_silence_of_a_job_heard_while_the_clock_was_ahead_counts_from_now(light, clock):
    from gramwatt.service.tasks.upkeep import close_silent

    clock.turn(days=180)
    ingest(light, "job-1", lines(journal())[:-1])
    clock.turn(days=-180)
    assert close_silent(light) == []
    clock.turn(minutes=16)
    assert close_silent(light) == ["job-1"]


def test_a_job_that_fell_silent_and_speaks_again_is_not_lost(light, clock):
    from gramwatt.service.tasks.upkeep import close_silent

    sent = lines(journal())
    ingest(light, "job-1", sent[:-1])
    clock.turn(minutes=14)
    assert close_silent(light) == []
    clock.turn(minutes=2)
    assert close_silent(light) == ["job-1"]
    lost = job_document(light, "job-1").document
    assert (lost.state, lost.revision, lost.ended_at) == ("lost", 1, "2026-05-10T08:03:00.000000Z")
    assert "job-lost" in [notice.code for notice in lost.notices]
    ingest(light, "job-1", sent[-1:])
    final = job_document(light, "job-1").document
    assert (final.state, final.revision) == ("completed", 2)
    assert "job-lost" not in [notice.code for notice in final.notices]
    assert timedelta(seconds=final.duration_s) == 3 * MINUTE


@pytest.mark.parametrize("minutes", [85, 257, 600])
def test_every_interval_of_an_upload_is_stored_however_many_go_into_a_statement(service, minutes):
    sent = journal(minutes=minutes)
    ingest(service, "job-1", reversed(lines(sent)))
    written = [record for record in sent if isinstance(record, IntervalRecord)]
    with service.store.read() as session:
        stored = session.scalars(sa.select(Interval).order_by(Interval.start_us)).all()
    assert len(written) == minutes
    assert [row.energy_j for row in stored] == [record.energy_j for record in written]
    assert [row.seq for row in stored] == [record.seq for record in written]


def test_an_older_sqlite_takes_fewer_rows_in_a_statement(tmp_path):
    """SQLite before 3.32, as on Red Hat Enterprise Linux 8, takes 999 values in a statement."""
    service = fresh(tmp_path)

    @sa.event.listens_for(service.store.engine, "checkout")
    def limit(connection, *_):
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)

    sent = lines(journal(minutes=600))
    assert ingest(service, "job-1", sent).accepted == len(sent)
    assert energy_kwh(service) == pytest.approx(600 * 60 * 600 / 3.6e6)
    service.store.close()
