"""How long reports take: a month of many jobs, a job, and a page that the reader has.

    python -m benchmarks.reports [--month-jobs 100000] [--json]

Fills a temporary store as `benchmarks.scale` does. A process of its own then makes the month anew,
as HTML and as PDF; its time and peak memory are held against limits. Beside them stands typst alone
on the tables of that report, without the product's template, charts or sums. Each line has the
figure, its limit and their ratio; exit code 1 above a limit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import sqlalchemy as sa

from benchmarks.scale import MONTH, fill, opened
from gramwatt.reports import html, job, month, pdf
from gramwatt.reports.model import Document, Pair, Table
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.config import sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.months.cache import keep_sums
from gramwatt.service.months.report import month_report, months_with_data
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.months import MonthSum

MONTH_S, MONTH_MB, JOB_S, PAGE_MS = 20.0, 500.0, 1.0, 10.0
TIMES = 20


def took(action: Callable[[], object]) -> tuple[float, Any]:
    """Processor seconds of this process and its threads, and the result."""
    before = time.process_time()
    found = action()
    return time.process_time() - before, found


def cold(home: Path) -> None:
    """Make the month anew in this process; print seconds and peak memory as JSON."""
    service = opened(sqlite_url(home / "gramwatt.db"), home)
    with service.store.write() as session:
        session.execute(sa.update(MonthSum).values(document=None))
    wall = time.perf_counter()
    sums_s, document = took(lambda: month_report(service, MONTH))
    built = month.build(document)
    html_s, _ = took(lambda: html.render(built))
    pdf_s, _ = took(lambda: pdf.render(built))
    wall = time.perf_counter() - wall
    found = {"sums_s": sums_s, "html_s": html_s, "pdf_s": pdf_s, "wall_s": wall}
    found["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found |= {"typst_s": typst_alone(built), **job_times(service), "page_ms": page_ms(service)}
    print(json.dumps({**found, "jobs": document.totals.jobs}))


def typst_alone(document: Document) -> float:
    """Seconds that typst takes for the tables of a report as plain markup."""
    import typst

    lines = []
    for table in (block for block in document.blocks if isinstance(block, Table)):
        cells = [f"[{_plain(column.title)}]" for column in table.columns]
        for row in table.rows[: pdf.MAX_ROWS]:
            cells += [f"[{_plain(str(one) if isinstance(one, Pair) else one)}]" for one in row]
        lines.append(f"= {_plain(table.caption)}\n#table(columns: {len(table.columns)},")
        lines.append(", ".join(cells) + ")")
    markup = "\n".join(lines).encode()
    typst.compile(markup, format="pdf")  # reads the fonts
    return took(lambda: typst.compile(markup, format="pdf"))[0]


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in " .,%" else " " for c in text)


def job_times(service: Service) -> dict[str, float]:
    """Seconds for the report of one job, as HTML and as PDF, after a first one."""
    document = job_document(service, "T000000001").document

    def render() -> None:
        built = job.build(document)
        html.render(built)
        pdf.render(built)

    render()
    return {"job_s": took(render)[0]}


def page_ms(service: Service) -> float:
    """The median of requests for a month's page by a reader who has it [ms].

    The sums of all months are stored, as a server does every five minutes and at each month's end.
    """
    for month_name in months_with_data(service):
        keep_sums(service, month_name)
    client, key = create_app(service=service).test_client(), create_key(service, "page", "admin")
    headers = {"Authorization": f"Bearer {key.key}"}
    address = f"/v1/reports/monthly/{MONTH}.html"
    headers["If-None-Match"] = client.get(address, headers=headers).headers["ETag"]
    found = []
    for _ in range(TIMES):
        seconds, answer = took(lambda: client.get(address, headers=headers))
        if answer.status_code != 304:
            raise RuntimeError(f"{address}: {answer.status_code}")
        found.append(1e3 * seconds)
    return median(found)


def main() -> int:
    """Fill, measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--month-jobs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cold:
        cold(given.cold)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        service = opened(sqlite_url(home / "gramwatt.db"), home)
        upgrade(service.store)
        fill(service, 60, given.month_jobs)
        service.store.close()
        command = [sys.executable, "-m", "benchmarks.reports", "--cold", folder]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if given.json:
        print(json.dumps(found))
        return 0
    whole_s = found["sums_s"] + found["html_s"] + found["pdf_s"]
    rows = [
        (f"month of {found['jobs']:,} jobs, HTML and PDF", whole_s, MONTH_S, "s"),
        ("  its peak memory", found["mb"], MONTH_MB, "MB"),
        ("report of a job, HTML and PDF", found["job_s"], JOB_S, "s"),
        ("page that the reader has (304)", found["page_ms"], PAGE_MS, "ms"),
    ]
    for name, figure, limit, unit in rows:
        print(f"  {name:<44} {figure:>8.2f} {unit:<3} limit {limit:>4.0f}  {figure / limit:.2f}")
    print(
        f"  of the month: sums {found['sums_s']:.2f} s, HTML {found['html_s']:.2f} s, PDF "
        f"{found['pdf_s']:.2f} s; typst alone on its tables {found['typst_s']:.2f} s"
    )
    return 0 if all(figure <= limit for _, figure, limit, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
