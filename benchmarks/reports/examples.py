"""The example reports of docs/examples: three months of an invented company, by the product itself.

python -m benchmarks.reports.examples docs/examples
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.reports.demo_months import jobs
from gramwatt.reports import month, pdf
from gramwatt.reports.printable import cleaned
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.sci.records.records import encode
from gramwatt.service import pages
from gramwatt.service.budgets import set_budget
from gramwatt.service.common.requests import NewBudget
from gramwatt.service.config import ReportSettings, ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import keep_month, year_report
from gramwatt.service.months.revisions import job_table
from gramwatt.service.rendering import MonthFormat, render_job, render_month, render_year
from gramwatt.service.store.columns import read_month, to_text
from gramwatt.service.store.migrate import upgrade

NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
MONTH = "2026-05"
PPI = 72
EXAMPLE = Path(pages.__file__).parent / "data/example.json.gz"
"""The month that the site shows where it has none."""
FORMS: tuple[MonthFormat, ...] = ("json", "html", "pdf", "xlsx")
BUDGETS_KG = {"assistant": 300.0, "vision": 25.0}


def demo_service(home: Path) -> Service:
    """A store with the three months."""
    service = Service.open(
        ServiceConfig(
            home=home,
            database_url=sqlite_url(home / "gramwatt.db"),
            reports=ReportSettings(
                organisation="Example GmbH (invented)",
                accountable="Dana Example, Head of Sustainability",
                contact="sustainability@example.com",
            ),
            clock=lambda: NOW,
        )
    )
    upgrade(service.store)
    for name, records in jobs():
        ingest(service, name, [encode(record).encode() for record in records])
    for project, limit_kg in BUDGETS_KG.items():
        set_budget(service, NewBudget(project=project, limit_kg=limit_kg), by="example")
    return service


def first_page(document: MonthDoc) -> bytes:
    """Page one of the printed report as a picture."""
    import typst

    text = json.dumps(pdf._plain(cleaned(month.build(document))), ensure_ascii=False)
    template, fonts = pdf._template(), pdf._fonts(False)
    pages = typst.compile(
        template, format="png", ppi=PPI, font_paths=fonts, sys_inputs={"document": text}
    )
    return pages[0]


def main() -> int:
    """Write the last month in every format with its first page, a job and the year as reports."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        service = demo_service(Path(home))
        for name in ("2026-03", "2026-04", MONTH):
            document = read_month(keep_month(service, name))
        jobs = job_table(service, MONTH, revision=document.revision).jobs
        for form in FORMS:
            content = render_month(document, form, lambda: jobs)
            (folder / f"month-{MONTH}.{form}").write_bytes(content)
        EXAMPLE.write_bytes(gzip.compress(to_text(document).encode(), mtime=0))
        (folder / f"month-{MONTH}.png").write_bytes(first_page(document))
        job_doc = job_document(service, document.top_jobs[0].job_id).document
        for kind in ("html", "pdf"):
            (folder / f"job.{kind}").write_bytes(render_job(job_doc, kind))  # type: ignore[arg-type]
            year = render_year(year_report(service, MONTH[:4]), kind)  # type: ignore[arg-type]
            (folder / f"year-{MONTH[:4]}.{kind}").write_bytes(year)
        service.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
