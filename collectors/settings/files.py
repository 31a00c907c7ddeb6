"""Folders and files that only their owner reads, and small files of the system. Standard library
only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast
from zlib import crc32

from gramwatt.collectors.settings.identity import node_id

PRINTED = "printed"
"""Folder of a home with what this machine has told its user today."""


def folder(path: Path) -> None:
    """Make a folder and those above it that are missing, each mode 0700; others stay as they are.

    `Path.mkdir` gives its mode to the last of them only. Raises OSError when it cannot be made.
    """
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        if path == path.parent:
            raise
        folder(path.parent)
        with suppress(FileExistsError):  # an unmounted home has its parent and still refuses
            path.mkdir(mode=0o700)
    except OSError:  # on some read-only file systems the complaint is not that it exists
        if not path.is_dir():
            raise


def temporary_folder() -> Path:
    """Return this user's folder in the temporary directory, for what has no home."""
    from tempfile import gettempdir

    return Path(gettempdir()) / f"gramwatt-{os.getuid()}"


def opener(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=opener)`; one that is made gets mode 0600."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def sync_folder(path: Path) -> None:
    """Write the names in a folder to the disk, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def replace_text(path: Path, text: str, *, synced: bool = False) -> None:
    """Write a file of mode 0600 in one step, so that no reader finds half of it; raises OSError.

    It survives a power cut if it is `synced`.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8", opener=opener) as stream:
            stream.write(text)
            if synced:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(beside, path)
        if synced:
            sync_folder(path.parent)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a stream to write and read, which becomes the file when the block ends without an error.

    Until then, and on an error, what was there stays as it is. A link is followed, and a file keeps
    its mode; what is no file, such as a pipe, is written to at the end. Raises OSError.
    """
    import shutil  # the client imports this module
    from tempfile import TemporaryFile

    if path.exists() and not path.is_file():
        with TemporaryFile() as stream:
            yield cast(BinaryIO, stream)
            stream.seek(0)
            with path.open("wb") as target:
                shutil.copyfileobj(stream, target)
        return
    path = path.resolve()
    part = path.with_name(f".gramwatt-{os.urandom(8).hex()}.part")
    try:
        with part.open("x+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def why(error: Exception) -> str:
    """Return why a file could not be used in the system's words, without number and file name."""
    words: str | None = getattr(error, "strerror", None)
    return words or str(error)


def text_of(path: Path) -> str | None:
    """Return a small file's text without blanks and NULs around it; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
    except OSError:
        return None


def first_notice_today(home: Path, text: str) -> bool:
    """Tell whether `text` is printed for the first time today (UTC) on this machine; note it.

    True also where the home takes no note: a warning twice is better than none.
    """
    day = time.strftime("%Y%m%d", time.gmtime())
    notes = home / PRINTED / node_id()
    note = notes / f"{day}-{crc32(text.encode('utf-8', 'replace')):08x}"
    try:
        folder(notes)
        for old in notes.iterdir():
            if not old.name.startswith(day):
                old.unlink(missing_ok=True)
        os.close(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    return True
