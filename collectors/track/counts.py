"""The folder in memory of a running job, and the file there in which a process keeps its totals.

Every process of a job on a node has a file of its own: *cumulative* totals as an array of numbers
that it maps, and lines for the meter beside it. Nothing is confirmed, and reading twice changes
nothing. What a process has written stays, whatever ends the process. Standard library only.

    FOLDER/gramwatt-<user>/<job>.<number>/
        <process>.lines    JSON lines: who it is, what each total counts, windows, notices, its end
        <process>.totals   number 0 turns ENDED with the job; the others are totals [R]
        lock               flock of the meter; who holds it starts one
        wake               FIFO that the meter reads: a byte wakes it
        meter              what the meter says, as JSON, replaced as a whole
        gone               what ended workers had counted, as JSON: their files are deleted
        closed             empty; the job has ended, and nobody enters any more
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
import time
from binascii import crc32
from itertools import count as numbers_from
from threading import get_ident

from gramwatt.collectors.settings import identity, proc
from gramwatt.collectors.settings.json_lines import decoded, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Key = tuple[str | None, str | None]
    """Unit and phase of a count; None for the declared unit, and for no phase."""

if sys.platform != "win32":  # which imports this file too, and has none
    import fcntl

FOLDERS = ("/dev/shm", "/tmp")  # noqa: S108  # folders of mode 0700; the second one for macOS
LOCK, WAKE, METER, CLOSED = "lock", "wake", "meter", "closed"
STARTING, PRINTED, GONE = "starting", "printed", "gone"
LINES, TOTALS = ".lines", ".totals"
LEVELS = 8
"""How many processes above this one are asked for a job."""
ROOM_B = 256 * 1024
"""How much room the files of a job's first processes need [bytes]."""
TRIES = 1000
"""Jobs of one id on one node that may end one after the other, while their folders are here."""
STARTING_S = 10.0
"""How long a meter may take to start where files cannot be locked [s]."""
KEPT_S = 60.0
"""How long the folder of a closed job stays for whoever waits for its end [s]."""
UNMETERED_S = 3600.0
"""How long the folder of a dead job stays if no meter ever measured it [s]. Whoever starts a job
looks into each folder."""
ENDED = 1.0
NUMBER_B = 8
NUMBERS = 4_096
"""Numbers in a file of totals."""
PHASED_MOST = 3_000
"""Totals of one process past which a new one has no phase."""
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # Windows imports this too
_file_numbers = numbers_from(1)
"""Numbers of this process's files: of several running jobs, the one with the last is innermost."""


def clock_ns() -> int:
    """Return the clock of all marks: time since boot, suspended time included [ns].

    Where the system has no such clock, the monotonic one, as the meter does.
    """
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class JobFolder:
    """The folder in memory of one run of a job on this node."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def enter(cls, job_id: str) -> tuple[JobFolder, bool] | None:
        """Return the folder of a job that runs here, or a new one; and whether it is new.

        None where no memory can be had.
        """
        root = _root()
        for number in range(TRIES if root else 0):
            folder = cls(f"{root}/{_key(job_id)}.{number}")
            try:
                os.mkdir(folder.path, 0o700)
                return folder, True
            except FileExistsError:
                if not folder.closed and not folder.close_left_over():
                    return folder, False
            except OSError:
                return None
        return None

    def at(self, name: str) -> str:
        """Return the path of a file in it."""
        return f"{self.path}/{name}"

    @property
    def closed(self) -> bool:
        """Return whether the job has ended, or is not here."""
        return os.path.exists(self.at(CLOSED)) or not os.path.isdir(self.path)

    @property
    def finished(self) -> bool:
        """Return whether nobody has to do anything for the closed job: its meter has journaled the
        end, or has never begun.
        """
        status = self.status()
        return self.closed and (not status or bool(status.get("closed")))

    def close(self) -> None:
        """Let nobody enter any more; who is in already is seen by the next look."""
        self.take(CLOSED)

    def reopen(self) -> None:
        """Take `close` back: somebody had entered, or the meter died before it had journaled the
        end.
        """
        _unlink(self.at(CLOSED))

    def take(self, name: str) -> bool:
        """Make an empty file; False where somebody has before, or the folder is gone."""
        try:
            os.close(os.open(self.at(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600))
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        """Return the names of the processes that have a file here."""
        return sorted(n[: -len(LINES)] for n in _listed(self.path) if n.endswith(LINES))

    def forget(self, name: str) -> None:
        """Delete the files of a process."""
        for ending in (LINES, TOTALS):
            _unlink(self.at(name + ending))

    def lives(self) -> bool:
        """Say whether a process of the job that has a file here is alive."""
        return any(map(is_alive, self.names()))

    def is_metered(self) -> bool:
        """Say whether a meter has ever measured the job, or one may yet."""
        return os.path.exists(self.at(METER)) or self.lives()

    def status(self, name: str = METER) -> dict[str, Any]:
        """Return what the meter says, or has in another file; empty where that is not there."""
        try:
            with open(self.at(name), "rb") as stream:
                return decoded(stream.read())
        except OSError:
            return {}

    def say(self, status: Mapping[str, Any], name: str = METER) -> None:
        """Replace what the meter says, or has in another file; raises OSError."""
        beside = self.at(f".{name}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)
        try:
            os.write(descriptor, encoded(status))
        finally:
            os.close(descriptor)
        os.replace(beside, self.at(name))

    def finish(self) -> None:
        """Say, for a dead meter, that the end of the closed job is journaled; raises OSError."""
        if self.closed and (status := self.status()):
            self.say({**status, "closed": True})

    def wake(self) -> bool:
        """Wake the meter; False where none listens."""
        try:
            descriptor = os.open(self.at(WAKE), os.O_WRONLY | os.O_NONBLOCK | _FLAGS)
        except OSError:
            return False
        try:
            os.write(descriptor, b"\n")
        except OSError:  # it is full, and so the meter is woken already
            pass
        finally:
            os.close(descriptor)
        return True

    def listen(self) -> int:
        """Return the descriptor of the FIFO by which a meter is woken; raises OSError."""
        path = self.at(WAKE)
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        # For writing too, so that it never ends.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | _FLAGS)

    def lock(self) -> int | None:
        """Return the open lock, which the meter inherits; None while another process holds it."""
        try:
            descriptor = os.open(self.at(LOCK), os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A system without flock: who makes a file starts the meter, and the FIFO says whether
            # it lives.
            no_locks = error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
            if not (no_locks and not self.wake() and self._starts()):
                os.close(descriptor)
                return None
        return descriptor

    def close_left_over(self) -> bool:
        """Close what a job and its meter that were killed have left; False for a living one."""
        names = self.names()
        if not names or any(map(is_alive, names)) or self.wake():
            return False
        lock = self.lock()
        if lock is None:
            return False
        self.close()
        os.close(lock)
        return True

    def discard(self) -> bool:
        """Delete a closed one; False while its meter still works, which deletes it itself.

        Else the meter would write into the folder of the next run of this id, which takes the name
        once it is free, that the job has ended.
        """
        if not os.path.exists(self.at(CLOSED)):  # gone, or already the next run's
            return True
        lock = self.lock()
        if lock is None:
            return False
        if os.path.exists(self.at(CLOSED)):
            self.remove()
        os.close(lock)
        return True

    def remove(self) -> None:
        """Delete it; nobody may need it any more."""
        names = sorted(_listed(self.path), key=lambda name: name == CLOSED)
        for name in names:
            _unlink(self.at(name))
        try:
            os.rmdir(self.path)
        except OSError:
            return

    def _starts(self) -> bool:
        path = self.at(STARTING)
        if _age_s(path) > STARTING_S:
            _unlink(path)
        return self.take(STARTING)


class Totals:
    """The file of this process in a job's folder, where it alone writes: lines, and what it counts.

    Each thread adds to totals of its own, so that none waits for another.
    """

    def __init__(self, folder: JobFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._lines: int | None = None
        self._inode = 0
        self._numbers: memoryview[float] | None = None
        self._places: dict[tuple[int, str | None, str | None], int] = {}
        """Which number is a total, by thread, unit and phase."""
        self._first_places: dict[Key, int] = {}
        self._free_places = numbers_from(1)
        self._last_place = 0

    @classmethod
    def make(cls, folder: JobFolder, first: Mapping[str, Any]) -> Totals | None:
        """Enter a folder with the line `first`; None where the job has ended or no room is."""
        while True:
            name = f"{name_of(os.getpid())}-{next(_file_numbers)}"
            if not os.path.exists(folder.at(name + LINES)):  # of this process before an exec
                break
        totals = cls(folder, name)
        try:
            if totals._map() and totals._enter(encoded(first)) and not folder.closed:
                return totals
        except OSError:
            pass
        folder.forget(name)
        return None

    @property
    def ended(self) -> bool:
        """Return whether the job has ended."""
        numbers = self._numbers
        return numbers is None or numbers[0] == ENDED

    def count(self, amount: float, unit: str | None, phase: str | None) -> bool:
        """Add an amount [R] to the total of a unit in a phase: one store, which a kill cannot cut.

        False where the job has ended, or there is no room. The end is looked for afterwards: what a
        meter reads then has all that was written before it.
        """
        key = get_ident(), unit, phase
        place = self._places.get(key) or self._new_place(*key)
        numbers = self._numbers  # another thread may end the job
        if numbers is None or place is None:
            return False
        numbers[place] += amount  # without a call, so that no handler of a signal runs in between
        return numbers[0] != ENDED

    def append(self, message: Mapping[str, Any]) -> bool:
        """Add a line; False where it has no room."""
        line = encoded(message)
        try:
            if not self._still_ours():  # a process that daemonises closes every descriptor
                self._open(os.O_WRONLY | os.O_APPEND)
            return self._lines is not None and os.write(self._lines, line) == len(line)
        except OSError:
            return False

    def close(self) -> None:
        """Let go of it: what is written stays. A process may have thousands of jobs one by one."""
        lines, self._numbers = self._lines, None
        if lines is not None and self._still_ours():
            os.close(lines)
        self._lines = None

    def __del__(self) -> None:
        """Let go of that of a job which a worker does not count into any more."""
        try:
            self.close()
        except Exception:  # the interpreter is ending
            return

    def _new_place(self, thread: int, unit: str | None, phase: str | None) -> int | None:
        """Return the place of a total that is named now; None where there is no room.

        Where the numbers are used up, the first thread's place of this unit and phase is shared:
        gevent has a "thread" for each request, and all of them run in one real thread.
        """
        most = NUMBERS - 1 if phase is None else PHASED_MOST
        place = next(self._free_places) if self._last_place < most else NUMBERS
        if place < NUMBERS:
            self._last_place = place
            if not self.append({"cmd": "total", "place": place, "unit": unit, "phase": phase}):
                return None
            self._first_places.setdefault((unit, phase), place)
        elif (unit, phase) in self._first_places:
            place = self._first_places[unit, phase]
        elif phase is not None:
            return self._places.get((thread, unit, None)) or self._new_place(thread, unit, None)
        else:
            return None
        self._places[thread, unit, phase] = place
        return place

    def _enter(self, first: bytes) -> bool:
        """Make the file of lines with its first line in one step."""
        beside = self._folder.at(f".{self._name}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        try:
            is_whole = os.write(descriptor, first) == len(first)
        finally:
            os.close(descriptor)
        os.rename(beside, self._folder.at(self._name + LINES))
        self._open(os.O_WRONLY | os.O_APPEND)
        return is_whole

    def _open(self, flags: int) -> None:
        self._lines = os.open(self._folder.at(self._name + LINES), flags | _FLAGS)
        self._inode = os.fstat(self._lines).st_ino

    def _still_ours(self) -> bool:
        try:
            return self._lines is not None and os.fstat(self._lines).st_ino == self._inode
        except OSError:
            return False

    def _map(self) -> bool:
        """Map the numbers, which are written before: memory that is full must not kill."""
        path = self._folder.at(self._name + TOTALS)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        try:
            zeros = bytes(NUMBERS * NUMBER_B)
            if os.write(descriptor, zeros) != len(zeros):
                return False
            self._numbers = memoryview(mmap.mmap(descriptor, len(zeros))).cast("d")
        except (OSError, ValueError):
            return False
        finally:
            os.close(descriptor)
        return True


def name_of(pid: int) -> str:
    """Return the name of a process, which no other has on this node before its next boot."""
    return f"{pid}-{proc.process_start_ns(pid) or 0}"


def is_alive(name: str) -> bool:
    """Say whether the process of a file's name lives."""
    pid, began_ns = (int(part) for part in name.split("-")[:2])
    return proc.process_start_ns(pid) == began_ns if began_ns else proc.process_exists(pid)


def find_above(pid: int | None = None) -> tuple[JobFolder, dict[str, Any], int] | None:
    """Find the innermost running job of the nearest process above this one, or from `pid` on.

    Returns its folder, the first line of that process there, and its id; None without one.
    """
    files = [
        (name[: -len(LINES)], f"{root}/{folder}")
        for root in _roots()
        for folder in _listed(root)
        for name in _listed(f"{root}/{folder}")
        if name.endswith(LINES)
    ]
    pid = os.getppid() if pid is None else pid
    for _ in range(LEVELS if files else 0):
        own = [(name, folder) for name, folder in files if name.startswith(f"{pid}-")]
        begin = f"{name_of(pid)}-" if own else ""
        numbers = [(int(n[len(begin) :]), n, f) for n, f in own if n.startswith(begin)]
        for _, name, folder in sorted(numbers, reverse=True):
            job = JobFolder(folder)
            if not job.closed and (first := first_line(job.at(name + LINES))):
                return job, first, pid
        pid = proc.parent_of(pid)
        if not pid:
            break
    return None


def first_line(path: str) -> dict[str, Any]:
    """Return the first line of a process's file; empty where it is not there."""
    try:
        with open(path, "rb") as stream:
            return decoded(stream.readline())
    except OSError:
        return {}


def remove_left_over() -> None:
    """Delete this user's folders that nobody needs.

    They are of jobs that have been closed for a while, and of dead jobs that no meter measured.
    What is not in a journal stays.
    """
    for folder in [JobFolder(f"{root}/{name}") for root in _roots() for name in _listed(root)]:
        if os.path.exists(folder.at(CLOSED)):
            is_old = _age_s(folder.at(CLOSED)) > KEPT_S
            if is_old and folder.finished and not folder.status().get("unwritten"):
                folder.discard()
        elif _age_s(folder.path) > UNMETERED_S and not folder.is_metered():
            folder.remove()


def _root() -> str | None:
    """Return the folder for this user's jobs that begin now; None where none can be had.

    In the first place that has room: the shared memory of a container is soon full.
    """
    for place in FOLDERS:
        try:
            os.mkdir(f"{place}/gramwatt-{os.geteuid()}", 0o700)
        except OSError:  # it is there already, or cannot be
            continue
    roots = _roots()
    return next(filter(_has_room, roots), roots[0] if roots else None)


def _roots() -> list[str]:
    """Return the folders of this user's running jobs."""
    paths = [f"{place}/gramwatt-{os.geteuid()}" for place in FOLDERS]
    return [path for path in paths if _is_ours(path)]


def _is_ours(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _has_room(path: str) -> bool:
    try:
        system = os.statvfs(path)
    except OSError:
        return False
    is_unlimited = not system.f_blocks
    has_room = is_unlimited or system.f_bavail * system.f_frsize >= ROOM_B
    return has_room and os.access(path, os.W_OK)


def _key(job_id: str) -> str:
    """Return what tells a job of this home from every other, on what one meter can see."""
    home = os.environ.get("GRAMWATT_HOME", "")
    data = f"{job_id}\0{home}\0{identity.seen_by_a_meter()}".encode("utf-8", "surrogateescape")
    return f"{crc32(data):08x}{crc32(data[::-1]):08x}"


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _age_s(path: str) -> float:
    """Return how long ago a path was changed [s]. For a missing one it is the time since 1970."""
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return time.time()


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
