"""The parsers, each with valid inputs, and what it may do with any other: refuse it in its way."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from gramwatt.collectors.spool import recovery, spool
from gramwatt.sci.figures.errors import GramwattError, LookupFailed, RecordError
from gramwatt.sci.records.records import decode, encode
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.evidence import EvidenceError, export
from gramwatt.service.imports import codecarbon
from gramwatt.service.intensity import csv_import, publishers
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.migrate import upgrade
from tests.journals import Writer, body, journal, lines
from tests.service.evidence.forge import members, sealed, verify

STORE_EVERY = 300
"""Inputs after which a store is made anew, so that one does not slow down the next."""
EMISSIONS = (
    "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,"
    "gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,country_name,"
    "country_iso_code,region,cloud_provider,cloud_region,os,python_version,codecarbon_version,"
    "cpu_count,cpu_model,gpu_count,gpu_model,longitude,latitude,ram_total_size,tracking_mode,"
    "on_cloud,pue\n"
    "2026-05-10T08:10:00,vision,11111111-2222-3333-4444-555555555555,"
    "5b0fa12a-3dd7-45bb-9766-cc326314d9f1,600,0.01,0.1,42.5,300,20,0.007,0.05,0.003,0.06,France,"
    "FRA,,,,Linux,3.11,3.2.8,8,AMD EPYC 7543,1,1 x NVIDIA A100-SXM4-80GB,2.3,48.8,64,machine,N,"
    "1.2\n"
)


@dataclass(frozen=True)
class Target:
    """A parser: `run` raises for whatever it should not do with an input."""

    seeds: Sequence[bytes]
    run: Callable[[bytes], object]


class Stores:
    """A store in a folder, made anew now and then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._tables = folder / "tables.db"
        service = Service.open(ServiceConfig(database_url=sqlite_url(self._tables), home=folder))
        upgrade(service.store)
        service.store.close()
        self._service: Service | None = None
        self._client: Any = None
        self._used = 0

    def service(self) -> Service:
        """The service over it."""
        if self._service is None or self._used >= STORE_EVERY:
            self.close()
            path = self.folder / "store.db"
            shutil.copy(self._tables, path)
            config = ServiceConfig(database_url=sqlite_url(path), home=self.folder)
            self._service, self._client, self._used = Service.open(config), None, 0
        self._used += 1
        return self._service

    def client(self) -> Any:
        """A client of its app with a key of every project."""
        service = self.service()
        if self._client is None:
            key = create_key(service, "fuzz", "admin").key
            self._client = create_app(service=service).test_client()
            self._client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {key}"
        return self._client

    def close(self) -> None:
        """Leave it."""
        if self._service is not None:
            self._service.store.close()
        self._service = None


@contextmanager
def targets(folder: Path, bundle: bytes) -> Iterator[dict[str, Target]]:
    """The parsers by name, with a store each in `folder`; `bundle` is the evidence of a job."""
    stores = [Stores(folder / name) for name in ("ndjson", "intensity", "emissions")]
    upload, intensity, emissions = stores
    whole = journal()
    files = {name: content for name, content in members(bundle).items() if len(content) < 200_000}
    hours = "".join(f"2026-05-10T{hour:02d}:00Z,{hour}\n" for hour in range(24))
    points = [
        {
            "start": f"2026-05-10T0{hour}:00:00Z",
            "end": f"2026-05-10T0{hour + 1}:00:00Z",
            "g_per_kwh": 50 + hour,
        }
        for hour in range(5)
    ]
    sent = {"zone": "FR", "source": "utility", "points": points}
    yield {
        "journal": Target([body(whole), *_files(folder)], lambda one: _journal(folder, one)),
        "ndjson": Target(
            [body(whole), json.dumps([json.loads(line) for line in lines(whole)]).encode()],
            lambda one: _upload(upload, one),
        ),
        "bundle": Target([bundle], _bundle),
        "member": Target(
            [name.encode() + b"\n" + content for name, content in files.items()],
            lambda one: _member(bundle, one),
        ),
        "intensity": Target(
            [f"start_utc,g_per_kwh\n{hours}".encode(), json.dumps(sent).encode()],
            lambda one: _intensity(intensity, one),
        ),
        "emissions": Target([EMISSIONS.encode()], lambda one: _emissions(emissions, one)),
    }
    for store in stores:
        store.close()


def _files(folder: Path) -> list[bytes]:
    """An open file, as a meter leaves it: its state, then intervals."""
    meter = Writer(job="job-1")
    state = {"state": {"devices": ["GPU-1"], "counts": [["image", 3.0]], "client": None}}
    return [json.dumps(state).encode() + b"\n" + encode(meter.interval(0, 10, 50.0)).encode()]


def _journal(folder: Path, content: bytes) -> None:
    """A journal on disk: lines are read, a dead writer is closed, and lines survive a round."""
    for line in content.split(b"\n"):
        with suppress(RecordError):
            record = decode(line)
            assert decode(encode(record)) == record
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    place = spool.spool_root(home) / "job-1" / "n-1"
    place.mkdir(parents=True)
    (place / "w1.jsonl").write_bytes(content)
    (place / "w1.open").write_bytes(content)
    for path in (*place.iterdir(), place):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    [found] = spool.folders(home)
    found.writers()
    found.unclosed()
    with suppress(RecordError):
        recovery.close_dead(found, strict=True)
    for line in found.lines():
        with suppress(RecordError):
            decode(line)


def _upload(stores: Stores, content: bytes) -> None:
    """An upload: answered, and what it made can be read and reported."""
    client = stores.client()
    path = f"/v1/jobs/job-{stores._used}"
    content = content.replace(b'"job-1"', b'"' + path.rpartition("/")[2].encode() + b'"')
    is_array = content.lstrip().startswith(b"[")
    media = "application/json" if is_array else "application/x-ndjson"
    answer = client.post(f"{path}/records", data=content, content_type=media)
    assert answer.status_code < 500, answer.text
    for address in (path, f"{path}/report", f"{path}/intervals", f"{path}/report.pdf"):
        found = client.get(address)
        assert found.status_code < 500, found.text


def _bundle(content: bytes) -> None:
    with suppress(EvidenceError):
        verify(content)


def _member(bundle: bytes, content: bytes) -> None:
    """A bundle that somebody made anew with another content of one file; its sums fit."""
    name, _, changed = content.partition(b"\n")
    files = members(bundle)
    if name.decode("ascii", "replace") in files:
        _bundle(sealed({**files, name.decode(): changed}))


def _intensity(stores: Stores, content: bytes) -> None:
    service = stores.client() and stores.service()
    if content.lstrip().startswith(b"{"):
        answer = stores.client().post(
            "/v1/intensity", data=content, content_type="application/json"
        )
        assert answer.status_code < 500, answer.text
        return
    path = stores.folder / "hours.csv"
    path.write_bytes(content)
    with suppress(publishers.IntensityFileError, LookupFailed):
        csv_import.import_csv(service, path, "FR", "lifecycle", "average")


def _emissions(stores: Stores, content: bytes) -> None:
    """The rows that are taken have a score that can be read."""
    service = stores.service()
    path = stores.folder / "emissions.csv"
    path.write_bytes(content)
    with suppress(codecarbon.NotCodecarbonError):
        answer = codecarbon.import_csv(service, path, UTC)
        for job_id in answer.imported:
            with suppress(GramwattError):
                job_document(service, job_id)


def bundle_of_a_job(folder: Path) -> bytes:
    """The bundle of a job, made in `folder`."""
    stores = Stores(folder)
    service = stores.service()
    ingest(service, "job-1", lines(journal()))
    stream = io.BytesIO()
    export(service, stream, "job", "job-1")
    stores.close()
    return stream.getvalue()
