"""A file in memory through which the child processes of a job count, and nobody waits for anybody.

The client that has a job's meter makes it, each child maps it for itself, and the meter reads it.
What a child has written stays, whatever ends the child. Standard library only.

It holds records: an amount twice, how much of it is journaled, a length, and a message of the
client's protocol as JSON. The message `count` says what one process counts there, and the amount is
all of it so far [R]; who finds two different ones has read while it was written. The first record
describes the job; its amount turns ENDED with it.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import time

from gramwatt.collectors.common.json_lines import decoded, encoded
from gramwatt.collectors.common.proc import began_of, parent_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import Any

FOLDERS = ("/dev/shm", "/tmp")  # noqa: S108  # files of mode 0600; the second one for macOS
NAME = "gramwatt-counts-"
NEWBORN_S = 60.0
"""A file that nobody holds is left alone so long [s]: it may just be made."""
LEVELS = 8
"""How many processes above this one are asked for a job."""
ENDED = 1.0
_HEAD = struct.Struct("<dddI4x")
_AMOUNT = struct.Struct("<dd")
_JOURNALED = struct.Struct("<d")
_ENDED = _AMOUNT.pack(ENDED, ENDED)
_READ_AGAIN = 1000
_made = 0
"""Jobs that this process has begun: one may begin inside another, and each has its file."""
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # Windows imports this too


class CountFile:
    """The open file of a job."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.inode = os.fstat(descriptor).st_ino
        self._read_to = 0

    @classmethod
    def make(cls, first: dict[str, Any]) -> CountFile | None:
        """Make the file of this process's job, which `first` describes; None where none can be."""
        global _made
        folder = _folder()
        if folder is None:
            return None
        _made += 1
        path = f"{folder}/{_name_of(os.getpid())}{_made}"
        try:
            made = cls(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600))
        except OSError:
            return None
        made.hold()
        if made.append(first) is None:
            made.remove()
            return None
        return made

    @classmethod
    def open(cls, path: str | None) -> CountFile | None:
        """Open the file at `path`; None where this user has none there."""
        if path is None:
            return None
        try:
            descriptor = os.open(path, os.O_RDWR | _FLAGS)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode):
            return cls(path, descriptor)
        os.close(descriptor)
        return None

    def hold(self) -> None:
        """Mark the file as used for as long as it is open here, or in a forked child."""
        self._lock(shared=True)

    def append(self, message: dict[str, Any]) -> int | None:
        """Add a record with amount 0; returns its place, or None where there is no room."""
        import fcntl  # Windows has none, and imports this file

        text = encoded(message)
        text += b" " * (-len(text) % 8)
        record = _HEAD.pack(0.0, 0.0, 0.0, len(text)) + text
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX)  # until this process lets go, or dies
            place = os.fstat(self.descriptor).st_size
            try:
                if os.pwrite(self.descriptor, record, place) == len(record):
                    return place
                os.ftruncate(self.descriptor, place)
            finally:
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
        except OSError:
            pass
        return None

    def first(self) -> dict[str, Any]:
        """Return what the first record says of the job; empty where it is not whole."""
        return next((message for place, message in self._records(0) if place == 0), {})

    def new_records(self) -> list[tuple[int, dict[str, Any]]]:
        """Return place and message of each record that was added since the last call."""
        return self._records(self._read_to)

    def amount(self, place: int) -> float | None:
        """Return the amount of a record [R]; None where it was written at each attempt to read."""
        for _ in range(_READ_AGAIN):
            one, two = _AMOUNT.unpack(os.pread(self.descriptor, _AMOUNT.size, place))
            if one == two:
                return float(one)
        return None

    def end(self) -> None:
        """Let the children know that nothing is read any more but what they have written."""
        try:
            if self._still_ours():
                os.pwrite(self.descriptor, _ENDED, 0)
        except OSError:
            return

    def remove(self) -> None:
        """Delete the file, after its end: a meter that dies in between is followed by another."""
        self.end()
        try:
            os.unlink(self.path)
        except OSError:
            return

    def journaled(self, place: int) -> float:
        """Return how much of a record's amount is journaled [R]."""
        found = os.pread(self.descriptor, _JOURNALED.size, place + _AMOUNT.size)
        return float(_JOURNALED.unpack(found)[0])

    def mark_journaled(self, place: int, amount: float) -> None:
        """Record how much of a record's amount is journaled, or in a state that is on disk [R]."""
        os.pwrite(self.descriptor, _JOURNALED.pack(amount), place + _AMOUNT.size)

    def close(self) -> None:
        """Close it here."""
        if self._still_ours():
            os.close(self.descriptor)

    def _still_ours(self) -> bool:
        # A process that daemonises closes every descriptor, and the number may be another file's.
        try:
            return os.fstat(self.descriptor).st_ino == self.inode
        except OSError:
            return False

    def is_abandoned(self) -> bool:
        """Say whether all who held it are dead."""
        return time.time() - os.fstat(self.descriptor).st_mtime > NEWBORN_S and self._lock()

    def _lock(self, *, shared: bool = False) -> bool:
        import fcntl

        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self.descriptor, how | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _records(self, begin: int) -> list[tuple[int, dict[str, Any]]]:
        data = os.pread(self.descriptor, os.fstat(self.descriptor).st_size - begin, begin)
        found, at = [], 0
        while at + _HEAD.size <= len(data):
            end = at + _HEAD.size + _HEAD.unpack_from(data, at)[3]
            if end > len(data):
                break
            found.append((begin + at, decoded(data[at + _HEAD.size : end])))
            at = end
        self._read_to = begin + at
        return found


class Cells:
    """The amounts of this process in a job's file, in memory that it shares with the meter."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._map: mmap.mmap | None = None
        self._inode = 0

    def attach(self, job_id: str) -> bool:
        """Map the file; False where that job's is not there."""
        file = CountFile.open(self._path)
        if file is None:
            return False
        try:
            if file.first().get("job_id") != job_id:
                return False
            self._inode = file.inode
            return self._remap(file)
        finally:
            file.close()

    @property
    def ended(self) -> bool:
        """Return whether the job has ended, or no file of it is mapped."""
        return self._map is None or self._map[: _AMOUNT.size] == _ENDED

    def append(self, message: dict[str, Any]) -> int | None:
        """Add a record with amount 0; returns its place, or None where that cannot be."""
        file = CountFile.open(self._path)
        if file is None:
            return None
        try:
            if file.inode != self._inode:
                return None
            place = file.append(message)
            return place if place is not None and self._remap(file) else None
        finally:
            file.close()

    def write(self, place: int, amount: float) -> None:
        """Set the amount of a record of this process [R]."""
        if self._map is not None:  # not pack_into, which writes zeros first
            self._map[place : place + _AMOUNT.size] = _AMOUNT.pack(amount, amount)

    def _remap(self, file: CountFile) -> bool:
        import mmap

        try:
            self._map = mmap.mmap(file.descriptor, 0)
        except (OSError, ValueError):  # no memory, or an empty file
            return False
        return True


def _folder() -> str | None:
    return next((name for name in FOLDERS if os.access(name, os.W_OK | os.X_OK)), None)


def _name_of(pid: int) -> str:
    """Return how the names of a process's files begin; their jobs' numbers follow."""
    return f"{NAME}{os.geteuid()}-{pid}-{began_of(pid)}-"


def find_above() -> CountFile | None:
    """Open the file of the innermost job of the nearest process above this one; None without one.

    Only processes begun by multiprocessing, or what is built on it, look for one: a script that is
    run as a command has a meter of its own.
    """
    for name in ("multiprocessing.process", "multiprocess.process"):
        module = sys.modules.get(name)
        parent = module.parent_process() if module is not None else None
        if parent is not None:
            return find_from(parent.pid)
    return None


def find_from(pid: int) -> CountFile | None:
    """Open the file of the innermost job of a process or the nearest above it; None without."""
    folder = _folder()
    names = _names(folder) if folder else []
    for _ in range(LEVELS if names else 0):
        begin = _name_of(pid)
        numbers = [int(name[len(begin) :]) for name in names if name.startswith(begin)]
        if numbers:
            return CountFile.open(f"{folder}/{begin}{max(numbers)}")
        pid = parent_of(pid)
        if not pid:
            break
    return None


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.startswith(NAME)]
    except OSError:
        return []


def remove_abandoned() -> None:
    """Delete this user's files whose job was killed together with its meter."""
    for folder in FOLDERS:
        for name in _names(folder):
            file = CountFile.open(f"{folder}/{name}")
            if file is not None:
                if file.is_abandoned():
                    file.remove()
                file.close()
