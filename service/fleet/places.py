"""Where archives lie: a folder, or a bucket of an S3-compatible store. Names are relative paths."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.config import S3Access, utc_now
from gramwatt.service.notifications import s3
from gramwatt.service.store.archives import archive_address

STAGING, SUPERSEDED = ".staging", "superseded"
"""Folders of files that no manifest has yet, and of those that none has any more."""


class ArchiveError(GramwattError):
    """An archive that was refused, or that is not whole; nothing was lost."""

    code = "archive"


class Place(Protocol):
    """A place of archives; raises ArchiveError."""

    address: str

    def names(self) -> list[str]:
        """Return the names of all files, but of those that no manifest has any more."""
        ...

    def local(self, name: str) -> Path | None:
        """Return a file with this content on this machine; None where there is none."""
        ...

    def put(self, staged: Path, name: str) -> None:
        """Store a staged file, whole or not at all, and on the disk."""
        ...

    def retire(self, name: str) -> None:
        """Set a file aside, so that who reads all files does not count its rows twice."""
        ...

    def working(self) -> AbstractContextManager[Path]:
        """Return a context of an empty folder to stage in, while no other writes here."""
        ...

    def close(self) -> None:
        """Delete what was copied to this machine."""
        ...


def open_place(address: str, environ: Mapping[str, str] | None = None) -> Place:
    """Return the place of an address, DIR or s3://bucket/prefix; raises ArchiveError."""
    scheme, is_url, rest = address.partition("://")
    if is_url and (scheme != "s3" or not rest.strip("/")):
        raise ArchiveError(
            f"{address} is no place of archives; write a folder or s3://BUCKET/PREFIX"
        )
    address = archive_address(address)
    if not address.startswith("s3://"):
        return Folder(Path(address))
    env = os.environ if environ is None else environ
    key_id, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not (key_id and secret):
        raise ArchiveError(f"{address} needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    region = env.get("AWS_REGION") or "us-east-1"
    host = env.get("AWS_ENDPOINT_URL") or f"https://s3.{region}.amazonaws.com"
    url = f"{host.rstrip('/')}/{address.removeprefix('s3://').strip('/')}"
    return Bucket(address, S3Access(url, key_id, secret, region, env.get("AWS_SESSION_TOKEN", "")))


class Folder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path, self.address = path, str(path)

    def names(self) -> list[str]:
        """Return the names of all files, but of those that no manifest has any more."""
        found = (p.relative_to(self.path) for p in self.path.rglob("*") if p.is_file())
        return sorted(str(p) for p in found if p.parts[0] not in (STAGING, SUPERSEDED, ".lock"))

    def local(self, name: str) -> Path | None:
        """Return the file itself; None where there is none."""
        path = self.path / name
        return path if path.is_file() else None

    def put(self, staged: Path, name: str) -> None:
        """Move a staged file to its name, once its content is on the disk."""
        target = self.path / name
        _sync(staged)
        target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        os.replace(staged, target)
        _sync(target.parent)

    def retire(self, name: str) -> None:
        """Move a file below `superseded`."""
        if (self.path / name).is_file():
            self.put(self.path / name, f"{SUPERSEDED}/{name}")

    @contextmanager
    def working(self) -> Iterator[Path]:
        """Yield an empty folder to stage in, while no other writes here."""
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            with (self.path / ".lock").open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = f"another process archives to {self.path}; wait for it to end"
                    raise ArchiveError(text) from None
                staging = self.path / STAGING
                shutil.rmtree(staging, ignore_errors=True)  # what a killed run left
                staging.mkdir(mode=0o700)
                try:
                    yield staging
                finally:
                    shutil.rmtree(staging, ignore_errors=True)
        except OSError as error:
            raise ArchiveError(f"cannot write to {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Do nothing: the files are read in their place."""


class Bucket:
    """A prefix of a bucket; files are copied to a temporary folder to be read."""

    def __init__(self, address: str, access: S3Access) -> None:
        self.address, self._access = address, access
        self._copies = Path(tempfile.mkdtemp(prefix="gramwatt-archive-"))

    def names(self) -> list[str]:
        """Return the names of all files, but of those that no manifest has any more."""
        with _refused():
            found = list(s3.names(self._access, utc_now(), self._copies / ".names"))
        return sorted(name for name in found if not name.startswith(f"{SUPERSEDED}/"))

    def local(self, name: str) -> Path | None:
        """Return a copy of the file; None where there is none."""
        path = self._copies / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with _refused():
            return path if s3.get(self._access, name, path, utc_now()) else None

    def put(self, staged: Path, name: str) -> None:
        """Upload a staged file; a bucket has it whole or not at all."""
        with _refused():
            s3.put(self._access, name, staged, "application/octet-stream", utc_now())

    def retire(self, name: str) -> None:
        """Copy a file below `superseded`, and delete it."""
        if (path := self.local(name)) is not None:
            self.put(path, f"{SUPERSEDED}/{name}")
            with _refused():
                s3.delete(self._access, name, utc_now())

    @contextmanager
    def working(self) -> Iterator[Path]:
        """Yield an empty folder of this machine; nothing keeps another from writing there."""
        with tempfile.TemporaryDirectory(prefix="gramwatt-archive-") as folder:
            yield Path(folder)

    def close(self) -> None:
        """Delete the copies."""
        shutil.rmtree(self._copies, ignore_errors=True)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except (s3.S3Error, OSError) as error:
        raise ArchiveError(str(error)) from error


def _sync(path: Path) -> None:
    """Have a file or the entries of a folder on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
