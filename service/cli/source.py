"""Where commands read jobs: this machine's store, or the server that is set; one shape of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from gramwatt.collectors.cli import server
from gramwatt.collectors.settings.identity import LAST, RUNS
from gramwatt.collectors.settings.installation import has_service, install_command
from gramwatt.sci.figures.document import JobDoc, JobHead
from gramwatt.sci.figures.structs import convert
from gramwatt.service.cli.common import author, current_service, job_errors, stop
from gramwatt.service.cli.common import run_ids as ids_of_store
from gramwatt.service.common.answers import JobsAnswer
from gramwatt.service.common.requests import JobList, MonthQuery

if TYPE_CHECKING:
    from gramwatt.collectors.client import Client
    from gramwatt.sci.month.documents import MonthDoc
    from gramwatt.sci.month.repeated import RunsComparisonDoc
    from gramwatt.sci.month.revised import MonthDifference
    from gramwatt.sci.suggest.documents import SuggestDoc
    from gramwatt.service.container import Service

SHORTEST = len("20260501-083000")
RUN_ONE = "run one: gramwatt run -- python train.py"


class StoreJobs:
    """The jobs of this machine's store."""

    where: str | None = None
    """The address of a server; None for this machine."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def page(self, query: JobList) -> tuple[JobsAnswer, dict[str, str]]:
        """Return a page of jobs, and their ids as they are shown."""
        from gramwatt.service.common.errors import CursorError
        from gramwatt.service.jobs.documents import short_ids
        from gramwatt.service.jobs.lists import jobs_page

        try:
            page = jobs_page(self.service, query)
        except CursorError as error:
            stop(2, f"--cursor: {error}")
        return page, short_ids(self.service, [head.job_id for head in page.jobs])

    def ids(self, text: str, most: int = RUNS) -> list[str]:
        """Return the ids of the jobs that a text means, of a name its newest completed runs."""
        return ids_of_store(self.service, text, most)

    def document(self, text: str) -> JobDoc:
        """Return the newest document of the job that a text means."""
        from gramwatt.service.jobs.documents import job_document

        with job_errors(text):
            return job_document(self.service, self.ids(text, 1)[0]).document

    def suggestions(self, document: JobDoc) -> SuggestDoc | None:
        """Return what would emit less than a job; None where that is not known."""
        from gramwatt.service.suggest import answer_for_document

        return answer_for_document(self.service, document)

    def correct(self, text: str, changes: Mapping[str, Any], reason: str | None) -> None:
        """Declare fields of a job afterwards."""
        from gramwatt.service.common.errors import CorrectionError
        from gramwatt.service.jobs.corrections import correct_job

        whole = self.ids(text, 1)[0]
        try:
            with job_errors(text):
                correct_job(self.service, whole, dict(changes), by=author(), reason=reason)
        except CorrectionError as error:
            stop(2, f"--set {error}")

    def head(self, text: str) -> JobHead:
        """Return the head of the job that a text means."""
        from gramwatt.service.jobs.documents import job_head

        return job_head(self.service, self.ids(text, 1)[0])

    def delete(self, job_id: str, reason: str | None) -> None:
        """Delete a job for good."""
        from gramwatt.service.jobs.deletion import delete_job

        delete_job(self.service, job_id, by=author(), reason=reason)

    def comparison(
        self, before: Sequence[str], after: Sequence[str], unit: str | None
    ) -> RunsComparisonDoc:
        """Return the runs of `after` against those of `before`."""
        return self.dated_comparison(before, after, unit)[0]

    def dated_comparison(
        self, before: Sequence[str], after: Sequence[str], unit: str | None
    ) -> tuple[RunsComparisonDoc, str]:
        """Return the same and its date; exits with 1 where there is none."""
        from gramwatt.sci.figures.errors import ScoreError
        from gramwatt.service.jobs.advice import comparison

        with job_errors(" or ".join((*before, *after))):
            try:
                return comparison(self.service, before, after, unit)
            except ScoreError as error:
                if error.code != "not-comparable":
                    raise
                stop(1, error.message)

    def newest_month(self) -> str:
        """Return the newest month with a job; exits with 1 without one."""
        from gramwatt.service.months.report import months_with_data

        months = months_with_data(self.service)
        return months[0] if months else stop(1, f"there is no job yet; {RUN_ONE}")

    def month(self, month: str, query: MonthQuery) -> MonthDoc:
        """Return the report of a month."""
        from gramwatt.service.months.report import month_report

        return month_report(self.service, month, query.project, revision=query.revision)

    def month_changes(self, month: str, query: MonthQuery, against: int) -> MonthDifference:
        """Return what a report of a month differs by from a kept one."""
        from gramwatt.service.months.revisions import compare

        return compare(self.service, month, query.project, query.revision, against)


class ServerJobs:
    """The jobs of a server that its key may read: answers of its API, as the same documents."""

    def __init__(self, client: Client, where: str) -> None:
        self.client = client
        self.where: str | None = where

    def page(self, query: JobList) -> tuple[JobsAnswer, dict[str, str]]:
        """Return a page of jobs, and their ids as short as they differ on it."""
        parameters = {name: value for name, value in to_builtins(query).items() if value}
        page = convert(self.client.get("/v1/jobs", **parameters), JobsAnswer)
        ids = [head.job_id for head in page.jobs]
        return page, {job_id: _short(job_id, ids) for job_id in ids}

    def ids(self, text: str, most: int = RUNS) -> list[str]:
        """Return the ids of the jobs that a text means, of a name its newest completed runs."""
        return self.client.job_ids(text, most)

    def document(self, text: str) -> JobDoc:
        """Return the newest document of the job that a text means."""
        return convert(self.client.report(self.ids(text, 1)[0]), JobDoc)

    def suggestions(self, document: JobDoc) -> SuggestDoc | None:
        """Return what would emit less than a job; None where the server has no answer."""
        from gramwatt.collectors.client import ApiError
        from gramwatt.sci.suggest.documents import SuggestDoc

        with suppress(ApiError):
            return convert(self.client.suggest(document.job_id), SuggestDoc)
        return None

    def correct(self, text: str, changes: Mapping[str, Any], reason: str | None) -> None:
        """Declare fields of a job afterwards; the key needs scope admin."""
        self.client.correct(self.ids(text, 1)[0], reason=reason, **changes)

    def head(self, text: str) -> JobHead:
        """Return the head of the job that a text means."""
        return convert(self.client.job(self.ids(text, 1)[0]), JobHead)

    def delete(self, job_id: str, reason: str | None) -> None:
        """Delete a job for good; the key needs scope admin."""
        self.client.delete(job_id, reason=reason)

    def comparison(
        self, before: Sequence[str], after: Sequence[str], unit: str | None
    ) -> RunsComparisonDoc:
        """Return the runs of `after` against those of `before`."""
        from gramwatt.sci.month.repeated import RunsComparisonDoc

        sides = {"before": list(before), "after": list(after), "unit": unit}
        return convert(self.client.get("/v1/comparisons.json", **sides), RunsComparisonDoc)

    def newest_month(self) -> str:
        """Return the month in which the job that ended last ended."""
        page = self.client.get("/v1/jobs", limit=1, sort="-ended_at")["jobs"]
        head = convert(page[0] if page else self.client.job(*self.ids(LAST, 1)), JobHead)
        return (head.ended_at or head.started_at)[:7]

    def month(self, month: str, query: MonthQuery) -> MonthDoc:
        """Return the report of a month."""
        from gramwatt.sci.month.documents import MonthDoc

        return convert(self.client.months(month, **to_builtins(query)), MonthDoc)

    def month_changes(self, month: str, query: MonthQuery, against: int) -> MonthDifference:
        """Return what a report of a month differs by from a kept one."""
        from gramwatt.sci.month.revised import MonthDifference

        path = f"/v1/reports/monthly/{month}/changes"
        return convert(
            self.client.get(path, against=against, **to_builtins(query)), MonthDifference
        )


@contextmanager
def jobs_of(*, local: bool) -> Iterator[StoreJobs | ServerJobs]:
    """Yield the jobs of the server that is set, of this machine's store without one or if
    `local`.
    """
    if local and not has_service():
        stop(2, f"--local needs the extra `service`; to install it: {install_command('service')}")
    try:
        if local or not server.is_set():
            with current_service() as service:
                yield StoreJobs(service)
        else:
            with server.asked() as (client, where):
                yield ServerJobs(client, where)
    finally:
        server.report_waiting()


def _short(job_id: str, ids: Sequence[str]) -> str:
    """Return the beginning of an id that no other of them has, of at least SHORTEST characters."""
    lengths = range(SHORTEST, len(job_id))
    others = [other for other in ids if other != job_id]
    return next(
        (
            job_id[:length]
            for length in lengths
            if not any(other.startswith(job_id[:length]) for other in others)
        ),
        job_id,
    )
