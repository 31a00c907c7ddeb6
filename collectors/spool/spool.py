"""The spool: one folder per job and node, the files in it, and who writes there.

A writer holds an exclusive flock on its own file while it lives, so the kernel knows which writers
are dead, whatever killed them. docs/journal.md describes the files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct

from gramwatt.collectors.settings import files, identity, proc
from gramwatt.collectors.settings.config import plain_address
from gramwatt.collectors.settings.json_lines import decoded
from gramwatt.collectors.track.counts import LOCK as METER_LOCK
from gramwatt.collectors.track.counts import JobFolder
from gramwatt.sci.records.records import INTERVAL_BEGINS

LOCK = "lock"
SERVER = "server.json"
SPOOL, DELIVERED = "spool", "delivered"
"""Folders of the home: journals, and delivered ones that are being deleted."""
FOREIGN_QUIET_S = 900.0
"""On storage shared by nodes a lock may be invisible from here; a folder of another node that was
written within three 5-minute intervals counts as live."""
LOCK_WAIT_S = 2.0
"""How long the lock of a folder is waited for [s]: who holds it may have been stopped, and no job
begins without its measurement for that."""
NEWBORN_S = 60.0
"""A folder without a line that nobody holds may belong to a meter that is just starting."""


class WriterFile(Struct, frozen=True):
    """One writer's files: facts from its final lines, and the state beside its open intervals."""

    writer: str
    path: Path
    live: bool
    ended: bool
    resumes: str | None
    state: dict[str, Any] | None

    @property
    def memory(self) -> JobFolder:
        """The job's folder in memory, perhaps gone."""
        return JobFolder(str((self.state or {}).get("memory")))


def spool_root(home: Path) -> Path:
    """Return the folder that holds all jobs' spools."""
    return home / SPOOL


def rejected_root(home: Path) -> Path:
    """Return the folder that keeps journals with lines that were refused."""
    return home / "rejected"


def free_b(path: Path) -> int:
    """Return the room on a folder's disk for this user's files [B]; raises OSError without it."""
    disk = os.statvfs(path)
    return disk.f_frsize * (disk.f_bavail if os.geteuid() else disk.f_bfree)


LEAST_FREE_B = 1_000_000
"""Room that a home must have for a job to begin there [B]: some hours of journal."""


TRIED_B = 4096
"""How much is written into a nameless file to see whether a folder takes files [B]."""


def why_unusable(folder: Path, least_free_b: int = 0) -> str | None:
    """Return in a sentence why a folder, or where it will be made, takes no files, or has less room
    than `least_free_b` [B]; None if it does. A quota, or no room for names, shows when one is
    written.
    """
    from tempfile import TemporaryFile

    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with TemporaryFile(dir=place) as stream:
            if least_free_b:
                stream.write(bytes(TRIED_B))
                stream.flush()
        return f"{folder} is on a full disk" if free_b(place) < least_free_b else None
    except OSError as error:
        return f"{folder} cannot be written ({files.why(error)})"


def usable_home(home: Path, least_free_b: int = 0) -> Path:
    """Return `home` when it can be written, else its private folder in the temporary directory.

    Each must have `least_free_b` [B] of room. Raises OSError when neither can be used.
    """
    for path in (home, temporary_home(home)):
        try:
            files.folder(path)
            is_ours = path == home or path.stat().st_uid == os.getuid()
        except OSError:
            continue
        # In the home of somebody who once used sudo the spool may be root's.
        tried = spool_root(path) if least_free_b else path
        if is_ours and why_unusable(tried, least_free_b) is None:
            return path
    room = " or has room" if least_free_b else ""
    raise OSError(f"neither {home} nor the temporary directory can be written{room}")


def temporary_home(home: Path) -> Path:
    """Return where journals are while `home` cannot be written or has no room; journals alone: a
    store there would be another one, which is gone after a restart of the machine.
    """
    name = zlib.crc32(os.fsencode(os.path.realpath(home)))
    return files.temporary_folder().with_suffix(f".{name:08x}")


def folders(home: Path, job_id: str | None = None) -> list[SpoolFolder]:
    """Return the folders of a home's spool, or of one job, oldest change first: also those that
    meters have written elsewhere while the home took none.
    """
    elsewhere = temporary_home(home)
    homes = [home, elsewhere] if _owner(elsewhere) == os.getuid() else [home]
    roots = [os.fspath(spool_root(path)) for path in homes]
    if job_id:
        jobs = [os.path.join(root, job_id) for root in roots]
    else:
        jobs = [job.path for root in roots for job in _scanned(root)]
    nodes = [node.path for job in jobs for node in _scanned(job) if node.is_dir()]
    return [SpoolFolder(Path(path)) for path in sorted(nodes, key=lambda p: (_changed_at(p), p))]


def waiting(home: Path) -> list[SpoolFolder]:
    """Return the folders of ended jobs that no server has taken yet."""
    return [row for row in folders(home) if row.server() is not None and not row.is_live()]


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def size_b(home: Path) -> int:
    """Return the size of the spool [B]; each of many files is looked up once."""
    jobs = _scanned(os.fspath(spool_root(home)))
    files = (file for job in jobs for node in _scanned(job.path) for file in _scanned(node.path))
    return sum(_stat(file, "st_size") for file in files)


class SpoolFolder:
    """One job's records of one node."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def home(self) -> Path:
        """The home whose spool it is in."""
        return self.path.parents[2]

    @property
    def job_id(self) -> str:
        """The job."""
        return self.path.parent.name

    @property
    def node(self) -> str:
        """The node."""
        return self.path.name

    def changed_at(self) -> float:
        """Return the Unix time of the newest change in the folder [s]; 0 when it is gone."""
        return _changed_at(os.fspath(self.path))

    def size_b(self) -> int:
        """Return the size of the folder's files [B]."""
        return sum(_stat(entry, "st_size") for entry in _scanned(os.fspath(self.path)))

    def may_be_resumed(self) -> bool:
        """Say whether the job lives here, though its meter died without an end.

        Its processes start another meter, which goes on from what this folder has; or one that
        they have started, and that holds the lock in memory, has not got so far yet.
        """
        memory = (writer.memory for writer in self.writers() if not writer.ended)
        return any(
            not folder.finished and (folder.lives() or _held(Path(folder.at(METER_LOCK))))
            for folder in memory
        )

    def sizes_b(self) -> dict[str, int]:
        """Return the sizes of the files with lines [B], which tell that a folder changes."""
        return {path.name: _size(path) for path in self._files(".jsonl", ".open")}

    def is_live(self) -> bool:
        """Say whether a living process writes here, as far as this machine can tell."""
        journals = self._files(".jsonl")
        if any(_held(path) for path in journals):
            return True
        now = time.time()
        if not journals:  # a meter that is just starting, or whose disk takes no file
            lock = self.path / LOCK
            return _held(lock) or now - _mtime(lock) < NEWBORN_S
        if any(_size(path) == 0 and now - _mtime(path) < NEWBORN_S for path in journals):
            return True
        return self._is_recent() and not self._is_of_this_machine(journals)

    def is_closed(self) -> bool:
        """Say whether nobody writes here any more, and every writer has its end."""
        return not (self.is_live() or self.unclosed() or self.may_be_resumed())

    def _is_recent(self) -> bool:
        """Say whether a meter has written here within FOREIGN_QUIET_S."""
        # Not by the other files: who delivers the folder writes there as well.
        newest = max(map(_mtime, self._files(".jsonl", ".open")), default=0.0)
        return time.time() - newest < FOREIGN_QUIET_S

    def _is_of_this_machine(self, journals: list[Path]) -> bool:
        """Say whether it was written here, perhaps in another container or before the last boot,
        so that locks alone say who lives.
        """
        if self.node in (identity.node_id(False), identity.node_id(True)):
            return True
        states = filter(None, map(_state_of, journals))
        return any(state.get("machine") == identity.machine_id() for state in states)

    def _files(self, *suffixes: str) -> list[Path]:
        paths = (Path(entry.path) for entry in _scanned(os.fspath(self.path)))
        return sorted((p for p in paths if p.suffix in suffixes), key=attrgetter("name"))

    def lines(self) -> Iterator[bytes]:
        """Yield final lines of all writers, then open lines; a torn last line is left out."""
        for path in self._files(".jsonl"):
            yield from _whole_lines(path)
        yield from self.open_lines()

    def open_lines(self) -> Iterator[bytes]:
        """Yield the intervals that all writers have open, without the state."""
        for path in self._files(".open"):
            yield from (ln for ln in _whole_lines(path) if not ln.startswith(b'{"state"'))

    def server(self) -> str | None:
        """Return the address of the server the records belong to; None for the local store."""
        try:
            address = decoded((self.path / SERVER).read_bytes()).get("server")
        except OSError:
            return None
        return address if isinstance(address, str) and address else None

    def writers(self) -> list[WriterFile]:
        """Return every writer's files, in the order of writer ids."""
        return [_writer_file(path) for path in self._files(".jsonl")]

    def state(self, writer: str) -> dict[str, Any] | None:
        """Return what a writer's open file says of its meter; None without one."""
        return _state_of(self.path / f"{writer}.jsonl")

    def states(self) -> list[dict[str, Any]]:
        """Return the states of all writers."""
        return [state for path in self._files(".jsonl") if (state := _state_of(path))]

    def live_states(self, but: str) -> list[dict[str, Any]]:
        """Return the states of living writers other than `but`."""
        journals = [path for path in self._files(".jsonl") if path.stem != but and _held(path)]
        return [state for path in journals if (state := _state_of(path)) is not None]

    def unclosed(self) -> list[WriterFile]:
        """Return the dead writers without an end of their own or of one that resumes them."""
        writers = self.writers()
        resumed = {item.resumes for item in writers if item.resumes}
        return [
            item
            for item in writers
            if not (item.live or item.ended or item.writer in resumed) and _size(item.path)
        ]


def remember_server(folder: Path, address: str) -> bool:
    """Write a server's address into a folder, without credentials; False when that failed.

    A folder that has it already is left alone.
    """
    target, text = folder / SERVER, json.dumps({"server": plain_address(address)}) + "\n"
    if files.text_of(target) == text.strip():
        return True
    try:
        files.folder(folder)
        files.replace_text(target, text)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def sent(folder: SpoolFolder, send: Callable[[Iterator[bytes]], object]) -> Iterator[bool]:
    """Send a folder's lines, and again what came meanwhile; give True when it is closed and can go.

    Until the block ends no meter opens a file in the folder: what leaves with it has been sent.
    """
    while True:
        before = folder.sizes_b()
        send(folder.lines())
        try:
            lock = lock_folder(folder.path, fcntl.LOCK_EX)
        except OSError:  # another process has delivered it
            lock = None
        try:
            can_go = lock is not None and folder.is_closed()
            if not can_go or folder.sizes_b() == before:
                yield can_go
                return
        finally:
            if lock is not None:
                os.close(lock)


def lock_folder(folder: Path, how: int) -> int | None:
    """Lock a folder, and return the open file descriptor; None when others hold it for LOCK_WAIT_S.

    `how` is LOCK_SH for a meter that opens a file in it, and makes it; LOCK_EX for who removes it.
    Raises OSError where the folder cannot be made or opened.
    """
    until_s = time.monotonic() + LOCK_WAIT_S
    while True:
        if how == fcntl.LOCK_SH:
            files.folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > until_s:
                return None
            time.sleep(0.01)
            continue
        except OSError:  # a file system without locks
            return descriptor
        if is_at(descriptor, folder):
            return descriptor
        os.close(descriptor)


def discard(folder: SpoolFolder) -> None:
    """Delete a folder that was delivered, and its job's where that is empty.

    It leaves the spool in one step: what a process that dies here leaves of it is no journal, and a
    recovery must not close what has lost its end. Raises OSError where nothing can be moved.
    """
    trash = folder.home / DELIVERED
    files.folder(trash)
    with contextlib.suppress(FileNotFoundError):  # another process delivers it
        os.replace(folder.path, trash / uuid.uuid4().hex)
    for entry in _scanned(os.fspath(trash)):
        shutil.rmtree(entry.path, ignore_errors=True)
    _remove_empty(folder.path.parent)


def reject(folder: SpoolFolder) -> Path:
    """Move a folder whose lines the store refuses to `rejected`; returns its new place.

    Raises OSError when it cannot be moved.
    """
    target = rejected_root(folder.home) / folder.job_id / folder.node
    files.folder(target.parent)
    serial = 1
    while target.exists():
        serial += 1
        target = target.with_name(f"{folder.node}.{serial}")
    os.replace(folder.path, target)
    _remove_empty(folder.path.parent)
    return target


def acquire(path: Path) -> int | None:
    """Lock `path`, and return the open file descriptor; None when another process holds the lock.

    Raises OSError where files cannot be made or locked at all.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # deleted or moved before it was locked: nobody else would see it


def is_at(descriptor: int, path: Path) -> bool:
    """Say whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not empty, or gone
        folder.rmdir()


def _scanned(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _stat(entry: os.DirEntry[str] | Path, name: str) -> int:
    """Return a figure of a file or folder; 0 for one that is gone."""
    try:
        return int(getattr(entry.stat(), name))
    except OSError:
        return 0


def _size(path: Path) -> int:
    return _stat(path, "st_size")


def _mtime(path: Path) -> float:
    return _stat(path, "st_mtime_ns") / 1e9


def _changed_at(folder: str) -> float:
    return max((_stat(entry, "st_mtime_ns") for entry in _scanned(folder)), default=0) / 1e9


def _held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        lives = _meter_lives(_state_of(path) or {})
        return time.time() - _mtime(path) < FOREIGN_QUIET_S if lives is None else lives
    finally:
        os.close(descriptor)


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            for line in stream:
                if line.endswith(b"\n") and len(line) > 1:
                    yield line[:-1]
    except OSError:
        return


def _writer_file(path: Path) -> WriterFile:
    ended, resumes = False, None
    for line in _whole_lines(path):
        if line.startswith(INTERVAL_BEGINS):  # of which nothing is asked here
            continue
        doc = decoded(line)
        kind = doc.get("type")
        ended = ended or kind == "end"
        if kind == "job" and isinstance(dead := doc.get("resumes"), str):
            resumes = dead or resumes
    return WriterFile(
        writer=path.stem,
        path=path,
        live=_held(path),
        ended=ended,
        resumes=resumes,
        state=_state_of(path),
    )


def _meter_lives(state: dict[str, Any]) -> bool | None:
    """Say whether the meter of a state is a process here; None where it may be elsewhere."""
    pid, began_ns = state.get("pid"), state.get("began_ns")
    if not (pid and began_ns and state.get("boot") == proc.boot_id()):
        return None
    return bool(proc.process_start_ns(int(pid)) == began_ns)


def _state_of(path: Path) -> dict[str, Any] | None:
    for line in _whole_lines(path.with_suffix(".open")):
        state = decoded(line).get("state")
        if isinstance(state, dict):
            return state
    return None
