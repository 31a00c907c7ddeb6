"""Finished monthly reports reach a folder, an S3-compatible store and a mailbox, once each."""

import hashlib
import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from aiosmtpd.controller import Controller

from gramwatt.service.config import AlertSettings, ConfigError, S3Access, from_environment
from gramwatt.service.notifications import report_letter
from gramwatt.service.tasks.table import TASKS
from tests.answering import answering, send
from tests.documents import changed, month_of, steady_job
from tests.service.keyed import add, with_settings

MAY = datetime(2026, 5, 10, 8, tzinfo=UTC)
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
FILES = [f"gramwatt-2026-05-r1.{form}" for form in ("html", "json", "pdf", "xlsx")]


class Inbox:
    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802  # aiosmtpd's name
        self.mails.append(envelope)
        return "250 OK"


@contextmanager
def mailbox(port):
    inbox = Inbox()
    controller = Controller(inbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield inbox, f"smtp://127.0.0.1:{port}"
    finally:
        controller.stop()


@contextmanager
def bucket(statuses=()):
    """An object store that checks digests and whose key it is, and answers with `statuses`."""
    kept, waiting = {}, list(statuses)

    def act(handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        whole = handler.headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
        signed = f"AWS4-HMAC-SHA256 Credential={KEY}/" in handler.headers["Authorization"]
        status = waiting.pop(0) if waiting else (200 if whole and signed else 403)
        if status == 200:
            kept[handler.path] = body
        send(handler, b"", status, ETag='"1"')

    with answering(act) as address:
        yield kept, f"{address}/reports/may"


def delivering(service, **reports):
    return with_settings(service, reports=reports)


def do(service):
    for name in ("monthly-reports", "outbox"):
        TASKS[name].action(service)


def test_a_finished_month_is_left_in_a_folder_and_late_data_leave_another(service, clock, tmp_path):
    folder = tmp_path / "out"
    sending = delivering(service, folder=folder)
    add(service, "job-1", start=MAY)
    do(sending)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    first = (folder / FILES[2]).read_bytes()
    (folder / FILES[2]).unlink()
    do(sending)  # sent once: what was taken away does not come back
    assert not (folder / FILES[2]).exists()
    clock.turn(days=1)
    add(service, "late", start=MAY)
    do(sending)
    second = json.loads((folder / "gramwatt-2026-05-r2.json").read_text())
    assert (second["revision"], second["revised"]["jobs"], second["totals"]["jobs"]) == (2, 1, 2)
    page = (folder / "gramwatt-2026-05-r2.html").read_text()
    assert "This report replaces revision 1" in page
    assert first.startswith(b"%PDF")


def test_a_store_that_is_away_gets_the_files_later(light, clock):
    with bucket(statuses=[503]) as (kept, url):
        sending = delivering(light, s3=S3Access(url, KEY, SECRET))
        add(light, "job-1", start=MAY)
        do(sending)
        assert kept == {}
        clock.turn(minutes=2)
        do(sending)
        assert sorted(kept) == [f"/reports/may/{name}" for name in FILES]
        assert kept[f"/reports/may/{FILES[2]}"].startswith(b"%PDF")


def test_a_wrong_key_is_said_in_the_outbox(light, client):
    with bucket() as (kept, url):
        sending = delivering(light, s3=S3Access(url, "another", SECRET))
        add(light, "job-1", start=MAY)
        do(sending)
        assert kept == {}
    (row,) = client.get("/v1/outbox").json["messages"]
    assert (row["channel"], row["state"], row["threshold"]) == ("report-s3", "waiting", None)
    assert "403 Forbidden" in row["error"]
    assert SECRET not in row["error"]


def test_without_the_extra_the_outbox_says_what_to_install(light, client, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    add(light, "job-1", start=MAY)
    do(delivering(light, s3=S3Access("http://127.0.0.1:9/reports", KEY, SECRET)))
    (row,) = client.get("/v1/outbox").json["messages"]
    assert "needs the extra `s3`: install it as gramwatt was" in row["error"]


def test_a_mail_brings_the_pdf_and_the_table(light, free_tcp_port):
    with mailbox(free_tcp_port) as (inbox, url):
        sending = delivering(light, mail_to=("lead@example.com",))
        alerts = AlertSettings(smtp_url=url)
        sending = with_settings(sending, alerts=alerts)
        add(light, "job-1", start=MAY)
        do(sending)
        do(sending)
        (mail,) = inbox.mails
    assert mail.rcpt_tos == ["lead@example.com"]
    text = mail.content.decode()
    assert "Subject: Energy and carbon of AI jobs, 2026-05" in text
    assert [name for name in FILES if f'filename="{name}"' in text] == FILES[2:]


def test_a_month_that_is_not_complete_is_not_sent(light, tmp_path):
    sending = delivering(light, folder=tmp_path / "out")
    add(light, "job-1", start=MAY, end_state=None)
    do(sending)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"GRAMWATT_REPORT_S3_URL": "bucket/prefix"}, "https://host/bucket/prefix"),
        ({"GRAMWATT_REPORT_S3_URL": "https://host/bucket"}, "AWS_ACCESS_KEY_ID"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, wrong):
    with pytest.raises(ConfigError, match=wrong):
        from_environment(settings)


def test_secrets_are_not_printed():
    assert SECRET not in repr(S3Access("https://host/bucket", KEY, SECRET))


def test_projects_that_a_setting_names_have_reports_of_their_own(service, clock, tmp_path):
    folder = tmp_path / "out"
    odd = "a/b, ü"
    projects = from_environment({"GRAMWATT_REPORT_PROJECTS": "vision a%2Fb%2C%20%C3%BC"})
    assert projects.reports.projects == {"vision", odd}
    sending = delivering(service, folder=folder, projects=projects.reports.projects)
    for name, project in (("job-1", "vision"), ("job-2", odd), ("job-3", "speech")):
        add(service, name, start=MAY, project=project)
    do(sending)
    digest = hashlib.sha256(odd.encode()).hexdigest()[:8]
    stems = {"gramwatt-2026-05", "gramwatt-2026-05-vision", f"gramwatt-2026-05-a_b__ü-{digest}"}
    made = {path.name for path in folder.iterdir()}
    forms = "html", "json", "pdf", "xlsx"
    assert made == {f"{stem}-r1.{form}" for stem in stems for form in forms}
    whole, *parts = (json.loads((folder / f"{stem}-r1.json").read_text()) for stem in sorted(stems))
    assert [part["project"] for part in (whole, *parts)] == [None, odd, "vision"]
    # One of three equal jobs each.
    grams = whole["totals"]["total_g"]["value"] / 3
    assert [part["totals"]["jobs"] for part in (whole, *parts)] == [3, 1, 1]
    assert [part["totals"]["total_g"]["value"] for part in parts] == pytest.approx([grams, grams])

    clock.turn(days=1)
    add(service, "late", start=MAY, project="vision")
    do(sending)
    new = {path.name for path in folder.iterdir()} - made
    assert {name.partition("-r2.")[0] for name in new} == {
        "gramwatt-2026-05",
        "gramwatt-2026-05-vision",
    }
    late = json.loads((folder / "gramwatt-2026-05-vision-r2.json").read_text())
    assert (late["revised"]["jobs"], late["totals"]["jobs"]) == (1, 2)


def test_each_project_has_its_report_by_mail(light, free_tcp_port):
    with mailbox(free_tcp_port) as (inbox, url):
        sending = delivering(light, mail_to=("lead@example.com",), projects=frozenset({"*"}))
        sending = replace(
            sending, config=replace(sending.config, alerts=AlertSettings(smtp_url=url))
        )
        for name, project in (("job-1", "vision"), ("job-2", "x\nBcc: thief@example.com")):
            add(light, name, start=MAY, project=project)
        do(sending)
    heads = [mail.content.decode().split("\r\n\r\n")[0] for mail in inbox.mails]
    assert [mail.rcpt_tos for mail in inbox.mails] == [["lead@example.com"]] * 3
    assert ["2026-05, vision" in head for head in heads] == [False, True, False]
    assert ["2026-05, x Bcc: thief@example.com" in head for head in heads] == [False, False, True]
    assert not any(line.startswith("Bcc") for head in heads for line in head.split("\r\n"))


def test_a_project_written_from_right_to_left_moves_no_figure_of_a_mail():
    document = month_of(
        [steady_job(project="\u05e9\u05dc\u05d5\u05dd")], project="\u05e9\u05dc\u05d5\u05dd"
    )
    subject, _ = report_letter(changed(document, revision=2))
    assert subject.endswith(", 2026-05, \u2068\u05e9\u05dc\u05d5\u05dd\u2069, revision 2")
