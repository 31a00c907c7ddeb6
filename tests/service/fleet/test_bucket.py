"""Archives in a bucket: late lines and corrections as over a folder, and a bucket that is away."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gramwatt.service.app import create_app
from gramwatt.service.fleet.archive import archive_ended_months, verify
from gramwatt.service.fleet.manifest import require_month
from gramwatt.service.fleet.places import open_place
from gramwatt.service.fleet.restore import with_archive
from gramwatt.service.months.report import month_report
from gramwatt.service.operation.retention import delete_old_intervals
from tests.service.fleet.test_archive import MONTH, fill
from tests.service.fleet.test_late_lines import gone, send_late
from tests.service.notifications.test_delivery import KEY, SECRET, bucket

PLACE = "s3://reports/may"


@pytest.fixture
def kept(monkeypatch):
    """Return the content of a bucket by path."""
    with bucket() as (content, url):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", url.removesuffix("/reports/may"))
        yield content


@pytest.mark.long
def test_late_lines_and_corrections_come_into_the_next_revision(
    light, clock, kept, monkeypatch, caplog
):
    fill(light)
    clock.turn(days=60)
    settings = {"keep_intervals": {"": timedelta(days=1)}, "archive_to": PLACE}
    service = with_archive(replace(light, config=replace(light.config, **settings)))
    assert archive_ended_months(service) == 2
    assert delete_old_intervals(service) == 4
    client, before = create_app(service=service).test_client(), dict(kept)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        answer = send_late(client)
        assert (answer.status_code, answer.json["code"]) == (409, "intervals-deleted")
    assert "did not give it" in caplog.text
    assert send_late(client).json["accepted"] == 4
    tag = client.get("/v1/jobs/job-b").headers["ETag"]
    corrected = client.patch("/v1/jobs/job-b", json={"zone": "DE"}, headers={"If-Match": tag})
    assert corrected.status_code == 200
    assert gone(service) == ["job-a", "job-c"]
    assert kept == before
    assert archive_ended_months(service) == 2
    now = {name: kept.get(name.replace("/may/", "/may/superseded/")) for name in before}
    moved = {name for name, content in before.items() if now[name] == content}
    assert all(
        name in moved or kept[name] == before[name] for name in before if "manifest" not in name
    )
    place = open_place(PLACE)
    manifest = require_month(place, MONTH)
    verify(place, manifest)
    assert (manifest.revision, manifest.rows("intervals")) == (2, 2 * (24 + 36 + 12 + 12) + 1)
    assert manifest.totals == month_report(service, MONTH, None)["totals"]
    place.close()
