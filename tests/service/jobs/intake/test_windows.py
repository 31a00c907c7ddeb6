"""Windows through the store: a view of what was counted, never counted again."""

import pytest

from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from tests.journals import Writer, journal, lines
from tests.service.keyed import add


def with_window(records):
    first = records[0]
    writer = Writer(
        first.writer, first.node, first.job_id, t0=first.started_at, first_seq=len(records) + 1
    )
    window = writer.count(12.0, seconds=120, since=writer.at(60), phase="epoch-1")
    return [*records, window]


def test_a_window_is_stored_scored_and_adds_nothing_to_r(light):
    add(light)
    plain = job_document(light, "job-1").document
    answer = ingest(light, "job-2", lines(with_window(journal("job-2"))))
    assert (answer.rejected, answer.duplicate) == ([], 0)
    found = job_document(light, "job-2").document
    assert found.sci == plain.sci
    assert found.energy_kwh.value == plain.energy_kwh.value
    (row,) = found.windows
    # a minute of 600 W
    assert (row.name, row.counts) == ("epoch-1", {"image": 12.0})
    assert row.energy_j.value == pytest.approx(36_000)
    assert row.energy_j_per_unit["image"].value == pytest.approx(3_000)
    assert plain.windows == []


def test_a_window_sent_again_is_one(light):
    sent = lines(with_window(journal()))
    ingest(light, "job-1", sent)
    assert ingest(light, "job-1", sent).accepted == 0
    assert len(job_document(light, "job-1").document.windows) == 1
