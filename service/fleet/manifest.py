"""What an archived month consists of: its files with rows, sums and digests, and its versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gramwatt.service.fleet.parquet import TABLES
from gramwatt.service.fleet.places import ArchiveError, Place

FORMAT, SCHEMA = "gramwatt-archive", 1
_NAME = re.compile(r"manifest-(\d{4}-\d{2})\.json")
_FILE = re.compile(rf"({'|'.join(TABLES)})/(\d{{4}}-\d{{2}})/[\w-]+\.parquet", re.ASCII)
"""Names of files, of a table and a month. Nothing else in a place is an archive's."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of one table and project: rows, bytes, and the sum of its joules, 0 without any."""

    name: str
    table: str
    project: str
    rows: int
    bytes: int
    energy_j: float
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A revision of an archived month.

    `store` is the id of the organisation's store, `made_of` a digest of the jobs of each project,
    `totals` the sums of the month as its document has them.
    """

    store: str
    month: str
    revision: int
    made_at: str
    engine_version: str
    catalog_version: str
    gramwatt_version: str
    time_zone: str
    made_of: dict[str, str]
    totals: Any
    files: tuple[ArchivedFile, ...]

    def of(self, table: str) -> list[ArchivedFile]:
        """Return the files of a table."""
        return [file for file in self.files if file.table == table]

    def rows(self, table: str) -> int:
        """Return the rows of a table."""
        return sum(file.rows for file in self.of(table))

    def to_text(self) -> str:
        """Return the manifest as JSON, with a digest of its own."""
        document = {"format": FORMAT, "schema": SCHEMA, **asdict(self)}
        return json.dumps({**document, "sha256": _digest(document)}, indent=1)


def manifest_name(month: str, revision: int | None = None) -> str:
    """Return the name of a month's manifest, or of one that a newer revision superseded."""
    return f"manifest-{month}.json" if revision is None else f"manifest-{month}-r{revision}.json"


def read_manifest(place: Place, month: str) -> Manifest | None:
    """Return the manifest of a month, None where it has none; raises ArchiveError."""
    name = manifest_name(month)
    path = place.local(name)
    if path is None:
        return None
    where = f"{name} in {place.address}"
    try:
        document = json.loads(path.read_text())
        if document["format"] != FORMAT or not isinstance(document["schema"], int):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ArchiveError(f"{where} is no manifest of an archive") from None
    if document["schema"] > SCHEMA:
        raise ArchiveError(
            f"{where} was written by gramwatt {document.get('gramwatt_version')}, whose archives "
            "this release does not read; upgrade gramwatt"
        )
    stated = document.pop("sha256", None)
    if stated != _digest(document):
        raise ArchiveError(f"{where} was changed after it was written; take it from a backup")
    fields = {k: v for k, v in document.items() if k not in ("format", "schema")}
    try:
        files = tuple(ArchivedFile(**file) for file in document["files"])
        found = Manifest(**{**fields, "files": files})
        names = [_FILE.fullmatch(file.name) for file in files]
        if found.month != month or not all(name and name[2] == month for name in names):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        text = f"{where} is not the manifest of {month}; take that from a backup"
        raise ArchiveError(text) from None
    return found


def require_month(place: Place, month: str, store: str | None = None) -> Manifest:
    """Return the manifest of a month; raises ArchiveError for none, or one of another store."""
    found = read_manifest(place, month)
    if found is None:
        known = ", ".join(months_in(place)) or "no month"
        if month in files_in(place):
            text = f"{month} in {place.address} was not finished: it has files and no manifest"
            raise ArchiveError(f"{text}; archive it again, which replaces them")
        raise ArchiveError(f"{month} is not in {place.address}, which has {known}")
    if store is not None and found.store != store:
        raise ArchiveError(
            f"{month} in {place.address} is an archive of another organisation's store; "
            "name a place of your own"
        )
    return found


def months_in(place: Place) -> list[str]:
    """Return the archived months of a place, in order."""
    found = (_NAME.fullmatch(name) for name in place.names())
    return sorted(match[1] for match in found if match)


def files_in(place: Place) -> dict[str, list[str]]:
    """Return the names of a place's files by their month, whether a manifest has them or not."""
    found: dict[str, list[str]] = {}
    for name in place.names():
        if match := _FILE.fullmatch(name):
            found.setdefault(match[2], []).append(name)
    return found


def leftovers(place: Place, manifest: Manifest) -> list[str]:
    """Return files of a month that its manifest does not have, as an interrupted run leaves."""
    known = {file.name for file in manifest.files}
    return [name for name in files_in(place).get(manifest.month, []) if name not in known]


def require_files(place: Place, manifest: Manifest) -> dict[str, list[Path]]:
    """Return the files of each table, by their digests those of the manifest; or ArchiveError."""
    found: dict[str, list[Path]] = {}
    for file, path in whole_files(place, manifest):
        found.setdefault(file.table, []).append(path)
    return found


def whole_files(place: Place, manifest: Manifest) -> Iterator[tuple[ArchivedFile, Path]]:
    """Yield the files of a manifest by their digests; raises ArchiveError for the first other."""
    for file in manifest.files:
        path = place.local(file.name)
        if path is None:
            text = f"{file.name} is missing in {place.address}"
            raise ArchiveError(f"{text}; {_remedy(manifest)}")
        if path.stat().st_size != file.bytes or sha256_of(path) != file.sha256:
            text = f"{file.name} in {place.address} was changed or damaged after it was written"
            raise ArchiveError(f"{text}; {_remedy(manifest)}")
        yield file, path


def _remedy(manifest: Manifest) -> str:
    name, month = manifest_name(manifest.month), manifest.month
    again = f"move {name} elsewhere and archive {month} again"
    return f"take it from a backup, or while the store has all lines of the month {again}"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def next_revision(before: Manifest | None, made: Manifest) -> Manifest:
    """Return a manifest numbered on from the one before."""
    return replace(made, revision=before.revision + 1 if before else 1)


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
