"""The journal writer: append-only final lines, and one small file for what is still open.

Order of writing: the `.open` file first, holding also the lines about to be appended, then the
append. Whatever dies in between, each joule is in one of the two, and the merge counts it once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.json import encode as to_json

from gramwatt.collectors.settings import files
from gramwatt.collectors.settings.json_lines import decoded
from gramwatt.collectors.spool.spool import is_at, lock_folder
from gramwatt.sci.records.records import AnyRecord, CountRecord, IntervalRecord, encode

Draft = tuple[type[AnyRecord], dict[str, Any]]
"""A record without its sequence number, which is only known when it is written."""

SYNC_EVERY_S = 10.0
SYNC_SHARE = 100.0
"""fsync at most every 10 s, and never for more than 1 % of the time: on a disk where it takes a
second, every 100 s. It guards against power cuts; a killed process loses nothing without it."""
COPY_B = 1 << 20


class _Sync:
    """When one of the two files is synced; each time takes `factor` times as long as its data."""

    def __init__(self, factor: float) -> None:
        self.is_due_later = False
        """Whether the last write is not synced yet."""
        self._factor = factor
        self._at = 0.0

    def of(self, descriptor: int) -> bool:
        """Sync a file; False where it is not yet time."""
        started = time.monotonic()
        self.is_due_later = started < self._at
        if self.is_due_later:
            return False
        with contextlib.suppress(OSError):
            os.fdatasync(descriptor)
        took_s = self._factor * (time.monotonic() - started)
        self._at = started + max(SYNC_EVERY_S, SYNC_SHARE * took_s) - 0.5
        return True


class Journal:
    """One writer's files in the spool folder of its job and node.

    Nothing here raises for a disk that is full, gone or read-only: lines wait in memory, and every
    later flush tries again.
    """

    def __init__(self, folder: Path, base: dict[str, Any], log: Callable[[str], None]) -> None:
        self.folder = folder
        self.base = base
        self.path = folder / f"{base['writer']}.jsonl"
        """The file of final lines."""
        self._open_path = self.path.with_suffix(".open")
        self._temporary = self.path.with_suffix(".tmp")
        self.seq = 0
        self.pending: list[Draft] = []
        self._log = log
        self._file: int | None = None
        self._size_b = 0
        self._open_seq = 0
        self._left: list[bytes] = []
        """What the meter before had open when it was killed."""
        self._failing = ""
        self._lines_sync = _Sync(1.0)
        self._open_sync = _Sync(2.0)  # the folder, in which its name is, takes as long again

    @property
    def failure(self) -> str:
        """Why the disk does not take the lines; empty while it does."""
        return self._failing

    def put(self, record: type[AnyRecord], /, **fields: Any) -> None:
        """Add a final record for the next flush; `writer` and `seq` may be another's."""
        self.pending.append((record, fields))

    def flush(self) -> bool:
        """Append all waiting records; False when the disk did not take them."""
        if not (self.pending or self._left):
            self._sync_rest()
            return True
        lines, seq = [line + b"\n" for line in self._left], self.seq
        for kind, fields in self.pending:
            seq += "seq" not in fields
            lines.append(encode(kind(**{"seq": seq, **self.base, **fields})).encode() + b"\n")
        try:
            descriptor = self._opened()
            self._append(descriptor, b"".join(lines))
        except OSError as error:
            self._fail(error)
            return False
        self.seq = seq
        self.pending.clear()
        self._left.clear()
        self._lines_sync.of(descriptor)
        self._failing = ""
        return True

    def write_open(self, state: dict[str, Any], drafts: Sequence[Draft]) -> bool:
        """Replace the open file: the state for the next meter, then `drafts` of lines that grow.

        The lines that are about to be appended are in it too.
        """
        waiting = [draft for draft in self.pending if draft[0] in (IntervalRecord, CountRecord)]
        base = {**self.base, "writer": self.base["writer"] + "-open"}
        lines = [line.decode() for line in self._left]
        for kind, fields in (*waiting, *drafts):
            self._open_seq += 1
            lines.append(encode(kind(**{"seq": self._open_seq, **base, **fields})))
        state = {**state, "open_seq": self._open_seq}
        lines.insert(0, to_json({"state": state}).decode())
        try:
            self._opened()
            self._replace(("\n".join(lines) + "\n").encode())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            self._fail(error)
            return False
        return True

    def close(self) -> None:
        """Release the lock: from here on this writer is dead or ended."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def open(self) -> bool:
        """Make and lock the file of final lines, so that the folder is live; False on failure."""
        try:
            self._opened()
        except OSError as error:
            self._fail(error)
            return False
        return True

    def _opened(self) -> int:
        """Open the file of final lines for appending, and return it.

        Where its folder was delivered and deleted meanwhile, or moved, the file is made anew with
        all lines that it had: lines that arrive twice count once.
        """
        before = self._file
        if before is not None and is_at(before, self.path):
            return before
        lock = lock_folder(self.folder, fcntl.LOCK_SH)  # it does not leave before it is live
        try:
            return self._made(before)
        finally:
            if lock is not None:
                os.close(lock)

    def _made(self, before: int | None) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        with contextlib.suppress(OSError):  # no locks on this file system: the folder's age decides
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            if before is not None:
                self._log("the journal's folder was moved or deleted; it is written again")
                os.ftruncate(descriptor, 0)
                self._size_b = 0
                self._append(descriptor, _content(before))
            else:
                self._go_on(descriptor)
            self._size_b = os.fstat(descriptor).st_size
        except OSError:
            os.close(descriptor)
            raise
        if before is not None:
            os.close(before)
        self._file = descriptor
        return descriptor

    def _go_on(self, descriptor: int) -> None:
        """Cut off what a meter that was killed has written in part, and number on from there."""
        lines = _whole(_content(descriptor))
        os.ftruncate(descriptor, sum(len(line) + 1 for line in lines))
        for line in reversed(lines):
            record = decoded(line)
            if record.get("writer") == self.base["writer"]:
                self.seq = int(record["seq"])
                break
        with contextlib.suppress(OSError):
            state, *opened = _whole(self._open_path.read_bytes()) or [b""]
            self._open_seq = int(decoded(state).get("state", {}).get("open_seq", 0))
            # Some of them were about to be appended; one that grows on is followed by a later one.
            self._left = opened

    def _append(self, descriptor: int, data: bytes) -> None:
        """Append all of `data`, or cut the file back to what it was; raises OSError."""
        written = -1
        try:
            written = os.write(descriptor, data)
        finally:
            if written != len(data):
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self._size_b)
        if written != len(data):
            raise OSError("the disk took a part of the lines only")
        self._size_b += len(data)

    def _replace(self, data: bytes) -> None:
        descriptor = os.open(
            self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError("the disk took a part of the open file only")
            synced = self._open_sync.of(descriptor)
        finally:
            os.close(descriptor)
        os.replace(self._temporary, self._open_path)
        if synced:
            files.sync_folder(self.folder)

    def _sync_rest(self) -> None:
        """Sync what an earlier write left unsynced, when it is time: this one wrote nothing."""
        for sync, path in ((self._lines_sync, self.path), (self._open_sync, self._open_path)):
            if not sync.is_due_later:
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    synced = sync.of(descriptor)
                finally:
                    os.close(descriptor)
                if synced:
                    files.sync_folder(self.folder)

    def _fail(self, error: OSError) -> None:
        self._sync_rest()  # a full disk takes no more, but what it has must survive a power cut
        if self._failing != str(error):
            self._failing = str(error)
            self._log(f"the journal cannot be written, lines wait in memory: {error}")


def _whole(data: bytes) -> list[bytes]:
    """Return the lines of a file without one that is torn."""
    return data.split(b"\n")[:-1]


def _content(descriptor: int) -> bytes:
    data = bytearray()
    while part := os.pread(descriptor, COPY_B, len(data)):
        data += part
    return bytes(data)
