"""A client of the HTTP API: thin, with the names of docs/api.md, answers as they are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from gramwatt.collectors.client.errors import (
    KINDS,
    ApiError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from gramwatt.collectors.settings.config import plain_address, resolve
from gramwatt.collectors.settings.http import Answer, Unanswered, exchange, new_session
from gramwatt.collectors.settings.identity import LAST, NAMES

Document = dict[str, Any]
LINES_MAX = 5_000
"""Journal lines of one request; the server takes 16 MiB."""
CHOICES_MOST = 10
"""Ids that are named where a text fits several."""
NDJSON = "application/x-ndjson"


class Client:
    """Asks one server. Raises ApiError for what it refuses, UnavailableError where none answers.

    `url` and `api_key` are those of the settings where they are not given (GRAMWATT_SERVER,
    GRAMWATT_API_KEY, docs/configuration.md), and a key goes only to its own server
    (docs/access.md); ValueError without a server, or where it may not get the key. An empty
    `api_key` sends none. `timeout_s` [s] is the limit of each request. What may be repeated is
    repeated twice while a server is busy. One client is for one thread.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout_s: float = 30.0
    ) -> None:
        if url is None or api_key is None:
            url, api_key = _by_settings(url, api_key)
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._session = new_session(api_key)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    # Jobs

    def jobs(self, **filters: Any) -> Iterator[Document]:
        """Yield the heads of jobs, newest first, page by page; filters as `GET /v1/jobs` has them.

        `tag` may be a list. `limit` is the size of a page.
        """
        while True:
            page = self.get("/v1/jobs", **filters)
            yield from page["jobs"]
            if page["next_cursor"] is None:
                return
            filters["cursor"] = page["next_cursor"]

    def job(self, job_id: str) -> Document:
        """Return the head of a job."""
        return self.get(f"/v1/jobs/{_part(job_id)}")

    def report(self, job_id: str, *, revision: int | None = None) -> Document:
        """Return the job document with every figure; the newest revision unless one is named."""
        return self.get(f"/v1/jobs/{_part(job_id)}/report.json", revision=revision)

    def job_ids(self, text: str, most: int = 1) -> list[str]:
        """Return the ids of the jobs that a text means, as commands take it: an id, `last`, what
        its user or Slurm calls a job, a name (its newest completed runs, `most` at most, without
        one its newest), or the beginning of an id.

        Raises NotFoundError for none, InvalidError for a text that fits several jobs.
        """
        if text == LAST:
            filters: list[Document] = [{"limit": 1}]
        else:
            try:
                return [str(self.job(text)["job_id"])]
            except (NotFoundError, InvalidError) as error:
                if error.status == HTTPStatus.GONE:
                    raise
            filters = [{"tag": f"{name}={text}"} for name in NAMES]
            filters.append({"name": text, "state": "completed", "limit": most})
            filters += [{"name": text, "limit": 1}, {"q": text}]
        for chosen in filters:
            ids = self._chosen_ids(text, chosen)
            if len(ids) > 1 and "name" not in chosen:
                raise _problem(InvalidError, f"{text!r} fits several jobs; say which: {_few(ids)}")
            if ids:
                return ids
        if text == LAST:
            raise _problem(NotFoundError, "no job yet that this key may read", code="no-data")
        raise _problem(NotFoundError, f"no job {text!r}", code="unknown-job")

    def _chosen_ids(self, text: str, chosen: Document) -> list[str]:
        """Return the newest ids of a page; of a search those that the text begins."""
        try:
            rows = self.get("/v1/jobs", **{"limit": 500, **chosen})["jobs"]
        except InvalidError:  # a text that is too long for this filter fits no job
            return []
        ids = [str(row["job_id"]) for row in rows]
        return [job_id for job_id in ids if "q" not in chosen or job_id.startswith(text)]

    def wait(self, job_id: str, *, timeout_s: float = 300.0) -> Document:
        """Return the job document once the job has ended and is scored.

        Raises UnavailableError when that takes longer than `timeout_s` [s].
        """
        until = time.monotonic() + timeout_s
        while True:
            head = self.job(job_id)
            if head["state"] != "running":
                return self.report(job_id)
            if (remaining_s := until - time.monotonic()) <= 0:
                raise UnavailableError(f"{job_id} still runs after {timeout_s:g} s")
            asked_s = max(1, min(remaining_s, self.timeout_s - 1, 60))
            self.get(f"/v1/jobs/{_part(job_id)}", wait="scored", timeout_s=int(asked_s))
            time.sleep(min(remaining_s, 0.2))

    def create(self, job_id: str, **fields: Any) -> Document:
        """Open a job for a sender without our meter; fields as `PUT /v1/jobs/{job_id}`."""
        return self._json("PUT", f"/v1/jobs/{_part(job_id)}", fields)

    def upload(self, job_id: str, records: Iterable[Mapping[str, Any]]) -> Document:
        """Send journal records (docs/journal.md); returns the sums of the server's answers.

        Sending again is harmless: a line that has arrived counts as duplicate.
        """
        total: Document = {"accepted": 0, "duplicate": 0, "rejected": []}
        lines = [json.dumps(record, allow_nan=False).encode() for record in records]
        for start in range(0, len(lines), LINES_MAX):
            body = b"\n".join(lines[start : start + LINES_MAX]) + b"\n"
            path = f"/v1/jobs/{_part(job_id)}/records"
            answer = self._ask("POST", path, data=body, headers={"Content-Type": NDJSON})
            for name in ("accepted", "duplicate"):
                total[name] += answer[name]
            total["rejected"] += [
                {**refused, "line": refused["line"] + start} for refused in answer["rejected"]
            ]
        return total

    def correct(self, job_id: str, *, reason: str | None = None, **fields: Any) -> Document:
        """Correct what a job declares, and return it scored again; fields as `PATCH` has them."""
        body = {**fields, **({"reason": reason} if reason else {})}
        return self._json("PATCH", f"/v1/jobs/{_part(job_id)}", body)

    def rescore(self, job_id: str, *, reason: str | None = None) -> Document:
        """Score an ended job again with the server's catalog and intensity."""
        body = {"reason": reason} if reason else {}
        return self._json("POST", f"/v1/jobs/{_part(job_id)}/rescore", body)

    def delete(self, job_id: str, *, reason: str | None = None) -> Document:
        """Delete a job with its records and scores."""
        return self._ask("DELETE", f"/v1/jobs/{_part(job_id)}", params=_given(reason=reason))

    # Months, advice, budgets, keys

    def months(
        self, month: str, *, project: str | None = None, revision: int | None = None
    ) -> Document:
        """Return the report of a month (`2026-05`), of all projects or of one."""
        path = f"/v1/reports/monthly/{_part(month)}.json"
        return self.get(path, project=project, revision=revision)

    def suggest(self, job_id: str | None = None, **question: Any) -> Document:
        """Return what would emit less for the same work: of a stored job, or of a question."""
        if job_id is not None:
            return self.get(f"/v1/jobs/{_part(job_id)}/suggestions", **question)
        return self._json("POST", "/v1/suggestions", question)

    def estimate(self, **question: Any) -> Document:
        """Return a score without measuring, from hardware, hours and place."""
        return self._json("POST", "/v1/estimates", question)

    def plan(self, **question: Any) -> Document:
        """Return when and where a job would emit least."""
        return self._json("POST", "/v1/plans", question)

    def budgets(self, *, project: str | None = None, month: str | None = None) -> list[Document]:
        """Return the budgets, with what is spent and expected [kg]."""
        rows: list[Document] = self.get("/v1/budgets", project=project, month=month)["budgets"]
        return rows

    def set_budget(self, project: str, limit_kg: float, **fields: Any) -> Document:
        """Set the budget of a project [kgCO2e a month]; fields as `POST /v1/budgets`."""
        body = {"project": project, "limit_kg": limit_kg, **fields}
        return self._json("POST", "/v1/budgets", body)

    def keys(self) -> list[Document]:
        """Return the server's keys, without the secrets."""
        rows: list[Document] = self.get("/v1/keys")["keys"]
        return rows

    def create_key(self, name: str, scope: str, **fields: Any) -> Document:
        """Make a key; the answer has the secret, which the server does not keep."""
        return self._json("POST", "/v1/keys", {"name": name, "scope": scope, **fields})

    # Whatever else the API has

    def get(self, path: str, **parameters: Any) -> Document:
        """Return the JSON of a GET route; parameters that are None are left out."""
        return self._ask("GET", path, params=_given(**parameters))

    def _json(self, method: str, path: str, body: Mapping[str, Any]) -> Document:
        return self._ask(method, path, json=dict(body))

    def _ask(self, method: str, path: str, **content: Any) -> Document:
        shown = f"{method} {plain_address(self.url)}{path}"  # without a password in the address
        try:
            answer = exchange(
                self._session,
                method,
                self.url + path,
                self.timeout_s,
                silence_s=self.timeout_s,
                **content,
            )
        except Unanswered as error:
            raise UnavailableError(f"{shown}: {error}") from error
        if not answer.ok:
            raise _error(shown, answer)
        try:
            document: Document = answer.json()
        except ValueError:
            raise ApiError(f"{shown} {answer.strange}", status=answer.status) from None
        return document


def _error(shown: str, answer: Answer) -> ApiError:
    """Return the exception for an answer, with the problem document where it has one."""
    problem = answer.document() or {}
    detail = problem.get("detail") or problem.get("title")
    waits = answer.headers.get("Retry-After", "")
    kind = KINDS.get(answer.status, ApiError)
    return kind(
        f"{shown}: {answer.status}: {detail}" if detail else f"{shown} {answer.strange}",
        status=answer.status,
        problem=problem,
        retry_after_s=float(waits) if waits.isdigit() else None,
    )


def _problem(kind: type[ApiError], detail: str, code: str = "invalid") -> ApiError:
    return kind(detail, problem={"code": code, "detail": detail})


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:CHOICES_MOST]) + (", ..." if len(ids) > CHOICES_MOST else "")


def _by_settings(url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """Return server and key, from the settings what is None; raises ValueError as Client does."""
    config = resolve({"server": url, "api_key": api_key or None})
    server = config.server
    if server is None or (url is not None and config.origins["server"] != "argument"):
        refused = (problem.text for problem in config.problems if problem.key == "server")
        raise ValueError(next(refused, "no server: give Client(url=...), or set GRAMWATT_SERVER"))
    return server, config.key_for(server) if api_key is None else api_key


def _part(text: str) -> str:
    return quote(text, safe="")


def _given(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
