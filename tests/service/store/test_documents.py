"""Documents that an older version stored open everywhere, whatever later fields they lack."""

import json

import pytest
import sqlalchemy as sa

from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.revisions import revision_change
from gramwatt.sci.base.document import JobDoc, MethodDoc
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, MonthlyReport, Score
from tests.documents import varied_job
from tests.journals import journal, lines

ALWAYS = {"job_id", "name", "project", "kind", "state", "started_at", "revision", "sci"}
ALWAYS |= {"conformance", "data_quality", "method"}
LATER = sorted(set(JobDoc.__annotations__) - ALWAYS)
METHOD_LATER = ["zones", "conversions", "sci_for_ai", "supply", "meter_energy_j", "inputs"]
PAGES = [
    "/",
    "/v1/jobs",
    "/v1/jobs/job-1",
    "/v1/jobs/job-1/report",
    "/v1/jobs/job-1/report.html",
    "/v1/jobs/job-1/suggestions",
    "/jobs/job-1",
    "/v1/reports/monthly/2026-05.json",
    "/v1/reports/monthly/2026-05.html",
    "/v1/reports/monthly/2026-05.csv",
]
PDFS = ["/v1/jobs/job-1/report.pdf", "/v1/reports/monthly/2026-05.pdf"]


def without(service, *fields, of=None):
    """Take fields away from the stored document, its head and its part over time."""
    with service.store.write() as session:
        score, job = session.scalars(sa.select(Score)).one(), session.scalars(sa.select(Job)).one()
        for row, column in ((score, "doc"), (score, "series"), (job, "head")):
            whole = json.loads(getattr(row, column))
            part = whole.get(of, {}) if of else whole
            for field in fields:
                part.pop(field, None)
            setattr(row, column, json.dumps(whole))


def opened(client, pages):
    return {page: client.get(page).status_code for page in pages}


@pytest.fixture
def stored(light):
    ingest(light, "job-1", lines(journal("job-1")))
    return light


@pytest.mark.parametrize("field", LATER)
def test_a_document_without_a_later_field_opens_everywhere(client, stored, field):
    without(stored, field)
    assert opened(client, PAGES) == dict.fromkeys(PAGES, 200)
    assert set(client.get("/v1/jobs/job-1/report").get_json()) == set(JobDoc.__annotations__)


@pytest.mark.parametrize("field", METHOD_LATER)
def test_a_method_without_a_later_field_opens_everywhere(client, stored, field):
    assert field in MethodDoc.__annotations__
    without(stored, field, of="method")
    assert opened(client, PAGES) == dict.fromkeys(PAGES, 200)


def test_inputs_of_a_former_release_are_compared_by_their_text():
    new = varied_job(gpus=1)
    old = json.loads(json.dumps(new))
    for row in old["method"]["inputs"]:
        for field in ("name", "symbol", "of", "count"):
            del row[field]
    assert revision_change(read_job(json.dumps(old)), new)["inputs"] == []


def test_a_document_without_any_later_field_makes_its_pdfs(client, stored):
    without(stored, *LATER)
    without(stored, *METHOD_LATER, of="method")
    assert opened(client, [*PAGES, *PDFS]) == dict.fromkeys([*PAGES, *PDFS], 200)


def test_a_kept_month_of_an_older_shape_is_made_anew(stored, clock):
    """Without any one of its fields, and as the same revision: nobody's figures have changed."""
    clock.turn(days=40)
    made = month_report(stored, "2026-05")
    for field in sorted(MonthDoc.__annotations__):
        clock.turn(days=1)
        with stored.store.write() as session:
            row = session.scalars(sa.select(MonthlyReport)).one()
            row.doc = json.dumps({key: value for key, value in made.items() if key != field})
        assert month_report(stored, "2026-05") == made, field


def test_an_older_revision_without_units_is_one_job_over_its_days(client, stored):
    # Its release wrote no units into the days: they are divided as M is, 3 to 1.
    with stored.store.write() as session:
        score = session.scalars(sa.select(Score)).one()
        document = json.loads(score.doc)
        (day,), (unit,) = document["days"], document["sci"]
        parts = [("2026-04-30", 0.75), ("2026-05-01", 0.25)]
        grams = day["embodied_g"]["value"]
        document["sci"] = [{**unit, "unit": "job", "count": 1.0}]
        document["days"] = [
            {
                **day,
                "day": name,
                "embodied_g": {**day["embodied_g"], "value": grams * share, "low": 0.0},
                "counts": {},
            }
            for name, share in parts
        ]
        score.doc = json.dumps(document)
        # That release kept no parts of months either.
        session.get_one(Job, score.job).summed_revision = 0
    report = client.get("/v1/reports/monthly/2026-05.json").json
    assert [(row["unit"], row["count"]) for row in report["projects"]] == [("job", 0.25)]
