"""Reports of jobs and months as bytes in the formats that routes, pages and commands offer.

A server renders them in a child process, one at a time, so that it stays small and responsive: V8
draws the charts and typst the PDF; both keep memory, per thread and with each report. The child is
replaced when it has grown, when a report takes too long, and when it dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.formatting import decimal_mark
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.service.common.errors import BusyError
from gramwatt.service.store.columns import to_text

if TYPE_CHECKING:
    from datetime import datetime

    from gramwatt.reports.model import Document
    from gramwatt.sci.figures.document import IntensityDoc
    from gramwatt.sci.month.repeated import RunsComparisonDoc
    from gramwatt.sci.month.revised import JobRow
    from gramwatt.sci.month.yearly import YearDoc
    from gramwatt.sci.planning.plan import PlanDoc
    from gramwatt.sci.suggest.documents import SuggestDoc


TIMEOUT_S = 60.0
"""How long a report may wait, and then be rendered [s]."""
NICE = 10
"""How much less of the processor a child gets than the server, while both want it."""
MAX_CHILD_B = 256 * 2**20
"""A child that is larger after a report is replaced [bytes].

One that has rendered once has 130 to 190 MiB; a PDF adds some 20 MiB, a page 2.
"""


LOADED = b"loaded"
"""What a child says first."""


class RenderProcess:
    """The child process of this process, started when a report is asked for."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._child: _Child | None = None
        self._next_child: _Child | None = None

    def render(self, report: Document, form: str) -> bytes:
        """Return the report as html, page or pdf; raises BusyError when there is too much to
        render.
        """
        if not self._turn.acquire(timeout=TIMEOUT_S):
            raise BusyError("other reports are being rendered; ask again in a minute")
        try:
            return self._next(report, form)
        finally:
            self._turn.release()

    def end(self) -> None:
        """End the child, and the one that would come next."""
        children, self._child, self._next_child = (self._child, self._next_child), None, None
        for child in children:
            if child is not None:
                child.end()

    def _next(self, report: Document, form: str) -> bytes:
        if self._child is None or self._child.has_died():
            self.end()
            self._child = _Child()
        child = self._child
        try:
            content = child.render(report, form)
        except (EOFError, OSError):
            code = child.exit_code()
            self.end()
            if code is not None and code > 0 and not child.answered:  # it will not start at all
                raise RuntimeError(
                    f"the process that renders reports ends at once, with exit code {code}"
                ) from None
            raise BusyError("the process that renders reports was ended; ask again") from None
        except Exception:
            self.end()
            raise
        if child.size_b() > MAX_CHILD_B:
            self._replace(child)
        return content

    def _replace(self, child: _Child) -> None:
        """Let the next child load what it needs while this one goes on, and take it once it has."""
        if self._next_child is None:
            self._next_child = _Child()
        elif self._next_child.is_ready() or child.size_b() > 2 * MAX_CHILD_B:
            child.end()
            self._child, self._next_child = self._next_child, None


class _Child:
    def __init__(self) -> None:
        self.answered = self._loaded = False
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        self._popen = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL
        )
        theirs.close()

    def is_ready(self) -> bool:
        """Return whether it has loaded what it needs."""
        with suppress(EOFError, OSError):
            self._loaded = self._loaded or (self._pipe.poll() and self._pipe.recv() == LOADED)
        return self._loaded

    def render(self, report: Document, form: str) -> bytes:
        self._pipe.send((report, form))
        if not self._loaded:
            self._answer()
            self._loaded = True
        answer = self._answer()
        self.answered = True
        if isinstance(answer, str):
            raise RuntimeError(f"the report cannot be rendered: {answer}")
        return answer

    def _answer(self) -> bytes | str:
        if not self._pipe.poll(TIMEOUT_S):
            raise BusyError(f"the report was not rendered within {TIMEOUT_S:g} s")
        answer: bytes | str = self._pipe.recv()
        return answer

    def size_b(self) -> int:
        """Return its resident memory [bytes]; 0 where the system does not say."""
        try:
            with open(f"/proc/{self._popen.pid}/statm", encoding="ascii") as stream:
                return int(stream.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        except OSError:
            return 0

    def exit_code(self) -> int | None:
        """Return how a child ended whose pipe is closed; None where it goes on."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(1.0)
        return self._popen.returncode

    def has_died(self) -> bool:
        return self._popen.poll() is not None

    def end(self) -> None:
        self._pipe.close()
        self._popen.kill()
        self._popen.wait()


def render(report: Document, form: str) -> bytes:
    """Render in this process; a `page` is html with what the site's script draws charts of."""
    if form in ("html", "page"):
        from gramwatt.reports import html

        return html.render(report, interactive=form == "page").encode()
    from gramwatt.reports import pdf

    return pdf.render(report)


def _serve(pipe: Any) -> None:
    """Render what the parent sends until it closes the pipe or dies, after what answers others."""
    os.nice(NICE)
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides when to end
        signal.signal(number, signal.SIG_IGN)
    _warm_up()
    with suppress(EOFError, OSError):
        pipe.send(LOADED)
        while True:
            report, form = pipe.recv()
            try:
                pipe.send(render(report, form))
            except Exception as error:
                pipe.send(f"{type(error).__name__}: {error}")


def _warm_up() -> None:
    """Load what draws and typesets, which takes longer than a report."""
    from gramwatt.reports import charts, html, model

    rows = [{"name": "", "share": 1.0, "label": "", "tip": [], "estimated": False}]
    data = model.Table("", (), ())
    chart = model.Chart("", "", charts.ranked(rows), data)
    html.render(model.Document("", "", "", (chart,)), interactive=True)


JobFormat = Literal["json", "html", "pdf"]
MonthFormat = Literal["json", "html", "pdf", "xlsx", "zip"]
Page = Literal["page"]
"""HTML for the site, whose script draws the charts anew."""
Mark = Literal[".", ","]
JOB_FORMATS: tuple[JobFormat, ...] = get_args(JobFormat)
MONTH_FORMATS: tuple[MonthFormat, ...] = get_args(MonthFormat)
MEDIA = {
    "json": "application/json",
    "html": "text/html",
    "page": "text/html",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "zip": "application/zip",
}
_child: RenderProcess | None = None


def render_job(
    document: JobDoc,
    form: JobFormat | Page,
    advice: SuggestDoc | None = None,
    *,
    full: bool = False,
    mark: Mark = ".",
) -> bytes:
    """Return the document of a job as json, or its report, short or full, as html, page or pdf.

    `mark` is the decimal mark of printed figures, here and below; JSON and tables have the point.
    """
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import job

    return _rendered(lambda: job.build(document, advice, full=full), form, mark)


def render_month(
    document: MonthDoc,
    form: MonthFormat | Page,
    jobs: Callable[[], Sequence[JobRow]],
    whole: str = "",
    mark: Mark = ".",
) -> bytes:
    """Return the report of a month as json, html, page or pdf, or its tables as xlsx or zip.

    Only tables need the `jobs` in its sums. With the address of the `whole` report, it is short
    and has links there.
    """
    if form == "json":
        return _as_json(document)
    if form in ("xlsx", "zip"):
        from gramwatt.reports.tables import as_xlsx, as_zip, month_tables

        sheets = month_tables(document, jobs())
        return as_xlsx(sheets) if form == "xlsx" else as_zip(sheets)
    from gramwatt.reports import month

    if whole:
        return _rendered(lambda: month.build_short(document, whole), form, mark)
    return _rendered(lambda: month.build(document), form, mark)


def render_year(document: YearDoc, form: JobFormat | Page, mark: Mark = ".") -> bytes:
    """Return the report of a year as json, html or pdf."""
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import year

    return _rendered(lambda: year.build(document), form, mark)


def render_comparison(
    document: RunsComparisonDoc, form: JobFormat, date: str, mark: Mark = "."
) -> bytes:
    """Return a comparison of runs as json, html or pdf, dated YYYY-MM-DD."""
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import comparison

    return _rendered(lambda: comparison.build(document, date), form, mark)


def render_intensity(answer: IntensityDoc, now: datetime, plan: PlanDoc | None) -> bytes:
    """Return a zone's intensity over time as a page, with the window of a plan if there is one."""
    from gramwatt.reports import intensity

    return _rendered(lambda: intensity.build(answer, now, plan), "page", ".")


def _as_json(document: object) -> bytes:
    """Return a document as readable JSON."""
    return indented(to_text(document))


def indented(text: str) -> bytes:
    """Return a document as readable JSON, of its compact text."""
    return msgspec.json.format(text.encode(), indent=2) + b"\n"


def _rendered(build: Callable[[], Document], form: str, mark: Mark) -> bytes:
    with decimal_mark(mark):
        report = replace(build(), mark=mark)
    return _child.render(report, form) if _child is not None else render(report, form)


def render_in_child() -> None:
    """Render from now on in a child process, as servers do: its libraries keep much memory."""
    global _child
    if _child is None:
        _child = RenderProcess()


def end_child() -> None:
    """End the child process, if there is one; the next report starts another."""
    if _child is not None:
        _child.end()


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
