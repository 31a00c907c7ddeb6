"""Folders and files that only their owner reads, and small files of the system. Standard library
only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


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


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: a file that is made gets mode 0600."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def write_text(path: Path, text: str) -> None:
    """As `Path.write_text` in UTF-8; a file that is made gets mode 0600. Raises OSError."""
    with open(path, "w", encoding="utf-8", opener=opener) as stream:
        stream.write(text)


def text_of(path: Path) -> str | None:
    """The text of a small file without blanks and NULs around it; None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
    except OSError:
        return None
