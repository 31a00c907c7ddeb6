"""The one API client of tests: it shows a key, as every caller must, and sends journals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient

from gramwatt.sci.records.records import AnyRecord
from gramwatt.service.access.keys import create_key, revoke_key
from gramwatt.service.api.access import EXTENSION
from gramwatt.service.app import create_app
from gramwatt.service.common.errors import UnknownKeyError
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import IngestAnswer, ingest
from gramwatt.service.jobs.local_spool import open_store
from tests.journals import body, journal, lines

NAME = "api"
NDJSON = "application/x-ndjson"
NO_KEY = {"Authorization": ""}
"""The headers of who shows no key."""


def bearer(key: str) -> dict[str, str]:
    """The headers of who shows this key."""
    return {"Authorization": f"Bearer {key}"}


def with_key(
    service: Service, name: str, scope: str, *projects: str, **more: Any
) -> dict[str, str]:
    """The headers of who shows a new key."""
    return bearer(create_key(service, name, scope, projects, **more).key)


def key_of(app: Flask) -> str:
    """The key of an admin of the app, made at first."""
    if NAME not in app.extensions:
        service: Service = app.extensions[EXTENSION]
        with suppress(UnknownKeyError):  # another app over this store has made one
            revoke_key(service, NAME)
        app.extensions[NAME] = create_key(service, NAME, "admin").key
    made: str = app.extensions[NAME]
    return made


class KeyedClient(FlaskClient):
    """Adds the admin's key to a request without `Authorization`; an empty one sends none."""

    def open(self, *args: Any, **options: Any) -> Any:
        headers = dict(options.pop("headers", None) or {})
        headers.setdefault("Authorization", f"Bearer {key_of(self.application)}")
        if not headers["Authorization"]:
            del headers["Authorization"]
        return super().open(*args, headers=headers, **options)

    def send(self, job_id: str, records: Sequence[AnyRecord] | bytes, **options: Any) -> Any:
        """The answer to records of a job, or to bytes in their place."""
        data = records if isinstance(records, bytes) else body(records)
        address = f"/v1/jobs/{job_id}/records"
        return self.post(address, data=data, content_type=NDJSON, **options)

    def take(self, records: Sequence[AnyRecord]) -> Any:
        """Send records that must all be taken; the answer's document."""
        answer = self.send(records[0].job_id, records)
        assert (answer.status_code, answer.json["rejected"]) == (200, []), answer.text
        return answer.json

    def month(self, month: str, **query: Any) -> Any:
        """The document of a month's report."""
        answer = self.get(f"/v1/reports/monthly/{month}.json", query_string=query)
        assert answer.status_code == 200, answer.text
        return answer.json


def add(service: Service, job_id: str = "job-1", **about: Any) -> IngestAnswer:
    """Take in the journal of a job, as tests.journals.journal makes it, and score it."""
    return ingest(service, job_id, lines(journal(job_id, **about)))


@contextmanager
def store_of(home: Path) -> Iterator[Service]:
    """The store of a home, closed at the end of the block."""
    service = open_store(home)
    try:
        yield service
    finally:
        service.store.close()


def with_settings(service: Service, **settings: Any) -> Service:
    """The service over the same store with other settings; `reports` may be those of them."""
    reports = settings.get("reports")
    if isinstance(reports, dict):
        settings["reports"] = replace(service.config.reports, **reports)
    return replace(service, config=replace(service.config, **settings))


def client_of(service: Service, **settings: Any) -> KeyedClient:
    """A client of an app over the service, with other settings."""
    client = create_app(service=with_settings(service, **settings)).test_client()
    assert isinstance(client, KeyedClient)
    return client


@contextmanager
def statements(service: Service) -> Iterator[list[str]]:
    """The SQL that goes to the database until the block ends."""
    found: list[str] = []
    listener = (
        service.store.engine,
        "before_cursor_execute",
        lambda _connection, _cursor, text, *_: found.append(text),
    )
    sa.event.listen(*listener)
    try:
        yield found
    finally:
        sa.event.remove(*listener)
