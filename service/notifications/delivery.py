"""Put finished monthly reports into the outbox, and make the files that are sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gramwatt.collectors.settings.files import whole_file
from gramwatt.reports.printable import file_name
from gramwatt.sci.figures.formatting import plain, text
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.service.container import Service
from gramwatt.service.months.report import month_text
from gramwatt.service.months.revisions import job_table, latest_revision
from gramwatt.service.rendering.reports import MEDIA, MonthFormat, render_month
from gramwatt.service.store.budgets import OutboxMessage, outbox_row
from gramwatt.service.store.documents import read_month
from gramwatt.service.store.upserts import upsert

FOLDER, S3, MAIL = "report-folder", "report-s3", "report-email"
CHANNELS = (FOLDER, S3, MAIL)
DELIVERED: tuple[MonthFormat, ...] = ("html", "pdf", "xlsx", "json")
MAILED: tuple[MonthFormat, ...] = ("pdf", "xlsx")


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report as a file."""

    name: str
    media: str
    content: bytes


def announce(service: Service, month: str, project: str | None = None) -> None:
    """Put the newest kept report of a month, of all projects or one, into the outbox.

    It is put there once for each configured target.
    """
    targets = list(_targets(service))
    revision = latest_revision(service, month, project) if targets else 0
    if not revision:
        return
    now_us = service.now_us()
    doc = json.dumps({"project": project or "", "month": month, "revision": revision})
    # The digest, since a name may be longer than a key.
    of = [hashlib.sha256(project.encode()).hexdigest()] if project else []
    key = ["report", month, revision, *of]
    rows = [outbox_row(key, project or "", to, doc, now_us) for to in targets]
    with service.store.write() as session:
        upsert(session, OutboxMessage, rows)


def _targets(service: Service) -> Iterator[tuple[str, str]]:
    settings = service.config.reports
    if settings.folder is not None:
        yield FOLDER, str(settings.folder)
    if settings.s3 is not None:
        yield S3, settings.s3.url
    for address in settings.mail_to:
        yield MAIL, address


def files(
    service: Service, document: MonthDoc, forms: tuple[MonthFormat, ...] = DELIVERED
) -> list[ReportFile]:
    """Return a kept report as files, named by month, project if it is of one, and revision."""
    month, project, revision = document.month, document.project, document.revision
    of = f"-{file_name(project, distinct=True)}" if project else ""
    stem = f"gramwatt-{month}{of}-r{revision}"
    jobs = job_table(service, month, project, revision).jobs
    mark = service.config.reports.decimal_mark
    return [
        ReportFile(
            f"{stem}.{form}", MEDIA[form], render_month(document, form, lambda: jobs, mark=mark)
        )
        for form in forms
    ]


def report_of(service: Service, doc: dict[str, Any]) -> MonthDoc:
    """Return the kept report that a message announces; raises NoDataError."""
    project = doc["project"] or None
    text = month_text(service, doc["month"], project, revision=doc["revision"])
    return read_month(text)


def write_files(folder: Path, made: list[ReportFile]) -> None:
    """Write files whole, or not at all; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in made:
        with whole_file(folder / one.name) as stream:
            stream.write(one.content)


def project_text(name: str) -> str:
    """Return the name of a project as a letter has it: in one line, and not too long."""
    return isolated(" ".join(name.split())[:200])


def letter(document: MonthDoc) -> tuple[str, str]:
    """Subject and text of the mail."""
    revision, totals = document.revision, document.totals
    project = project_text(document.project or "")
    subject = f"Energy and carbon of AI jobs, {document.month}{project and f', {project}'}"
    if revision and revision > 1:
        subject += f", revision {revision}"
    rows = [
        f"Carbon   {text(totals.total_g)}",
        f"Energy   {text(totals.energy_kwh)}",
        f"Jobs     {totals.jobs}",
        f"Data     grade {document.data_quality.grade}",
    ]
    before = document.revised
    if before:
        rows.append(f"Before   {text(before.total_g)} in revision {before.revision}")
    return subject, plain("\n".join(rows)) + "\n"
