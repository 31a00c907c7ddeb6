"""Who else on this node measures a board: lock files that every user can see and no user can abuse.

Each job keeps a file of its own, flocked, in the node's world-writable and sticky folder. Nothing
is believed but that a regular file of the user it is named after is locked now. Every step either
works at once or is left out; a node without such a folder knows the jobs of one home only.

A hostile user can claim to measure a board and so lower what others are billed for its idle time:
hence other users count once each, however many files they make, and the job says that it shares.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

FOLDERS = (Path("/dev/shm"), Path("/run/lock"), Path("/tmp"))  # noqa: S108 (checked in `folder`)
"""Where all users of a node may make files; the first that is fit, so that all take the same."""
PREFIX = "gramwatt-board-"
NAME = re.compile(PREFIX + r"([0-9a-f]{16})\.(\d{1,10})\.([0-9a-f]{16})")
ENTRIES_MAX = 10_000
"""Files of the folder that are looked at: it is open to all."""
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def folder(candidates: tuple[Path, ...] = FOLDERS) -> Path | None:
    """The node's folder for such files: the administrator's, open to all, deletion by owners only.

    None where there is none.
    """
    for path in candidates:
        try:
            found = path.lstat()
        except OSError:
            continue
        shared = found.st_mode & stat.S_ISVTX and found.st_mode & stat.S_IWOTH
        if stat.S_ISDIR(found.st_mode) and shared and found.st_uid == 0:
            return path
    return None


def owner(descriptor: int) -> int | None:
    """The user whose file it is; None for what is no regular file under one name."""
    found = os.fstat(descriptor)
    return found.st_uid if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else None


class NodeLocks:
    """One job's lock files among those of all users of the node."""

    def __init__(
        self,
        where: Path,
        job_id: str,
        uid: int | None = None,
        owner_of: Callable[[int], int | None] = owner,
    ) -> None:
        self._where, self._job = where, _short(job_id)
        self._uid = os.getuid() if uid is None else uid
        self._owner_of = owner_of
        self._held: dict[Path, int] = {}

    def take(self, uuid: str) -> None:
        """Say that this job measures the board; tried again later when it cannot be said now."""
        path = self._where / f"{PREFIX}{_short(uuid)}.{self._uid}.{self._job}"
        if path in self._held:
            return
        with contextlib.suppress(OSError):
            lock = self._locked(path)
            if lock is not None:
                self._held[path] = lock

    def others(self, uuid: str) -> set[str]:
        """Who else measures the board: other jobs of this user, and other users once each."""
        self.take(uuid)  # somebody's look may have held the file a moment ago
        board, found = _short(uuid), set()
        for name, user, job in self._files(board):
            if job == self._job or not self._lives(self._where / name, user):
                continue
            found.add(job if user == self._uid else f"user {user}")
        return found

    def release(self) -> None:
        """Let go of all boards."""
        for path, lock in self._held.items():
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)
        self._held.clear()

    def _files(self, board: str) -> Iterator[tuple[str, int, str]]:
        with contextlib.suppress(OSError), os.scandir(self._where) as entries:
            for _, entry in zip(range(ENTRIES_MAX), entries, strict=False):
                named = NAME.fullmatch(entry.name)
                if named and named[1] == board:
                    yield entry.name, int(named[2]), named[3]

    def _lives(self, path: Path, user: int) -> bool:
        """Whether the file is `user`'s and locked; a dead one of our own is removed."""
        try:
            descriptor = os.open(path, os.O_RDONLY | _OPEN)
        except OSError:
            return False
        try:
            if self._owner_of(descriptor) != user:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if user == self._uid:
                path.unlink()
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def _locked(self, path: Path) -> int | None:
        descriptor = _made(path)
        try:
            if self._owner_of(descriptor) == self._uid:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_ino == path.lstat().st_ino:  # not removed meanwhile
                    return descriptor
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None


def _made(path: Path) -> int:
    """Our file, new or left by a dead meter; never through a link. Readable to all, or their look
    would find nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR | _OPEN)
    os.fchmod(descriptor, 0o644)
    return descriptor


def _short(text: str) -> str:
    """Neither board nor job is told to other users, only whether it is the same."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
