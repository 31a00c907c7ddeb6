"""The file of a pack: a ZIP archive that is the same for the same files, and is read strictly.

The archive's comment is a seal: the SHA-256 of all bytes before it. It covers what no file's own
digest does, such as the bits that pad compressed data.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping

from gramwatt.sci.base.errors import GramwattError

STRUCTURE = "the archive's structure"
"""The part of a pack that is in no file."""
CHECKSUMS = "checksums.txt"
FILES_MOST = 200_000
PACKED_MOST_B = 2**30
"""The largest pack [B]."""
EXPANSION_MOST = 100
EXPANDED_FREE_B = 2**26
"""A pack may expand to this [B], a larger one to EXPANSION_MOST times its size."""
_SEAL = b"sha256 of the bytes before: "
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*(/[A-Za-z0-9][A-Za-z0-9._:\-]*){0,3}")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
"""What `zipfile` raises for archives that are none; NotImplementedError is a RuntimeError."""


class PackError(GramwattError, ValueError):
    """A file that is no pack, or one that was altered; `part` names what is wrong."""

    code = "bad-pack"

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"{part}: {message}")


def digest(content: bytes) -> str:
    """The SHA-256 of a file as hexadecimal text."""
    return hashlib.sha256(content).hexdigest()


def checksums(files: Mapping[str, bytes]) -> bytes:
    """The digests of files as `sha256sum --check` reads them."""
    return "".join(f"{digest(files[name])}  {name}\n" for name in sorted(files)).encode()


def write(files: Mapping[str, bytes]) -> bytes:
    """The archive of files by name, in the order of the names."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
        archive.comment = _seal(b"")
    content = stream.getvalue()[: -len(archive.comment)]
    return content + _seal(content)


def read(content: bytes) -> dict[str, bytes]:
    """The files of an archive by name; raises PackError for one that `write` did not make.

    Nothing is unpacked before the sizes and names of all files are known to be allowed.
    """
    if len(content) > PACKED_MOST_B:
        raise PackError(STRUCTURE, f"larger than {PACKED_MOST_B} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _require_allowed(entries, len(content))
            files = {entry.filename: _content(archive, entry) for entry in entries}
    except PackError:
        raise
    except _UNREADABLE as error:
        raise PackError(STRUCTURE, f"not a readable ZIP archive ({error})") from None
    _require_checksums(files)
    if not content.endswith(_seal(content[: -len(_seal(b""))])):
        raise PackError(STRUCTURE, "was altered, or this is no pack: its seal does not fit")
    return files


def _seal(content: bytes) -> bytes:
    return _SEAL + digest(content).encode()


def _require_allowed(entries: list[zipfile.ZipInfo], size_b: int) -> None:
    """Raise PackError for names and sizes that no pack has."""
    if len(entries) > FILES_MOST:
        raise PackError(STRUCTURE, f"has more than {FILES_MOST} files")
    names = [entry.filename for entry in entries]
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > 300:
            raise PackError(STRUCTURE, f"has a file with the name {name[:60]!a}")
    if names != sorted(set(names)):
        raise PackError(STRUCTURE, "names a file twice, or its files are out of order")
    expanded = sum(entry.file_size for entry in entries)
    most = max(EXPANDED_FREE_B, EXPANSION_MOST * size_b)
    if expanded > most:
        raise PackError(STRUCTURE, f"expands to {expanded} bytes, {most} are allowed")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_DEFLATED or entry.flag_bits:
            raise PackError(entry.filename, "is not stored as a pack stores its files")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The content of a file, never more than its declared size; raises PackError."""
    try:
        with archive.open(entry) as stream:
            content = stream.read(entry.file_size + 1)
    except _UNREADABLE as error:
        raise PackError(entry.filename, f"was altered: {error}") from None
    if len(content) != entry.file_size:
        raise PackError(entry.filename, "was altered: it is shorter than stated")
    return content


def _require_checksums(files: Mapping[str, bytes]) -> None:
    """Raise PackError for the first file that is missing, foreign, or has another digest."""
    if CHECKSUMS not in files:
        raise PackError(CHECKSUMS, "is missing: this is no pack")
    lines = files[CHECKSUMS].decode("ascii", "replace").splitlines()
    found = [_LINE.fullmatch(line) for line in lines]
    stated = {match[2]: match[1] for match in found if match}
    if len(stated) != len(lines):
        raise PackError(CHECKSUMS, "has lines that are none of its own")
    for name in sorted({*stated, *files} - {CHECKSUMS}):
        if name not in files:
            raise PackError(name, "is missing")
        if name not in stated:
            raise PackError(name, f"is not in {CHECKSUMS}")
        if digest(files[name]) != stated[name]:
            raise PackError(name, f"was altered: its SHA-256 is not that of {CHECKSUMS}")
