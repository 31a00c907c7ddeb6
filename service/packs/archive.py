"""The file of a pack: a ZIP archive that is the same for the same files, and is read strictly.

Neither writing nor reading has more than a file of it in memory.

The archive's comment is a seal: the SHA-256 of all bytes before it. It covers what no file's own
digest does, such as the bits that pad compressed data.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from gramwatt.sci.base.errors import GramwattError

STRUCTURE = "the archive's structure"
"""The part of a pack that is in no file."""
CHECKSUMS = "checksums.txt"
CHUNK_B = 2**20
"""As much of a file is in memory at once [B]."""
FILES_MOST = 400_000
PACKED_MOST_B = 2**34
"""The largest pack [B]."""
FILE_MOST_B = 2**30
"""The largest file of a pack [B]."""
EXPANSION_MOST = 100
EXPANDED_FREE_B = 2**24
"""A pack may expand to this [B], a larger one to EXPANSION_MOST times its size."""
DOCUMENT_MOST_B, ITEMS_MOST = 2**25, 500_000
"""The largest document of a pack [B], and the most values in it: a value takes far more memory than
its text. What comes by the line, journals and the parts of months, may be as large as a file."""
LINE_MOST_B = 400
"""The longest line of the checksums [B]."""
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


ZIPPED_AGAIN = (
    "was zipped again, or changed beside its files: they have their checksums, and the seal of the "
    "export is gone; verify the file as it was exported"
)


class PackError(GramwattError, ValueError):
    """A file that is no pack, or one that was altered; `part` names what is wrong."""

    code = "bad-pack"

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"{part}: {message}")


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    return hashlib.sha256(content).hexdigest()


class Files(Mapping[str, bytes]):
    """Files by name, read one at a time from where they are; `digests` are their SHA-256."""

    digests: Mapping[str, str]

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in portions."""
        yield self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.digests)

    def __len__(self) -> int:
        return len(self.digests)


class Collected(Files):
    """Files that are put together in a temporary file, so that they need not fit into memory.

    A context manager, at whose end they are gone. `folder` is where the temporary file is, which
    nobody else sees; None for the system's.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.digests: dict[str, str] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._stream = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def __enter__(self) -> Collected:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def add(self, name: str, *chunks: bytes) -> None:
        """Add a file, or put it in the place of the one with its name."""
        self.add_chunks(name, chunks)

    def add_chunks(self, name: str, chunks: Iterable[bytes]) -> None:
        """Add a file whose content comes in portions."""
        start, found = self._stream.seek(0, io.SEEK_END), hashlib.sha256()
        for chunk in chunks:
            found.update(chunk)
            self._stream.write(chunk)
        self._places[name] = start, self._stream.tell() - start
        self.digests[name] = found.hexdigest()

    def remove(self, folder: str) -> None:
        """Remove the files of a folder."""
        for name in [name for name in self.digests if name.startswith(f"{folder}/")]:
            del self.digests[name], self._places[name]

    def __getitem__(self, name: str) -> bytes:
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in portions."""
        start, size = self._places[name]
        for at in range(start, start + size, CHUNK_B):
            self._stream.seek(at)
            yield self._stream.read(min(CHUNK_B, start + size - at))


class Opened(Files):
    """The files of an archive that `read` has checked."""

    def __init__(self, archive: zipfile.ZipFile, digests: Mapping[str, str]) -> None:
        self.digests = digests
        self._archive = archive

    def __getitem__(self, name: str) -> bytes:
        if name not in self.digests:
            raise KeyError(name)
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in portions."""
        return _content(self._archive, self._archive.getinfo(name))


def read_document(files: Files, name: str) -> bytes:
    """Return a file that is parsed whole; raises PackError for one that takes too much memory."""
    if name not in files:
        raise PackError(name, "is missing")
    size_b = items = 0
    for chunk in files.chunks(name):
        size_b += len(chunk)
        items += sum(map(chunk.count, (b",", b"[", b"{", b"=")))
        if size_b > DOCUMENT_MOST_B or items > ITEMS_MOST:
            most = f"{DOCUMENT_MOST_B} bytes or {ITEMS_MOST} values"
            raise PackError(name, f"is larger than a document may be: {most}")
    return files[name]


def checksums(digests: Mapping[str, str]) -> bytes:
    """Return the digests of files as `sha256sum --check` reads them."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def write(files: Files, stream: BinaryIO) -> None:
    """Write the archive of files, in the order of their names; the stream can be read too."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w") as target:
                for chunk in files.chunks(name):
                    target.write(chunk)
        archive.comment = _seal(hashlib.sha256())
    end = stream.seek(-len(archive.comment), io.SEEK_END)
    sealed = _seal(_digest_of(stream, end))
    stream.seek(end)
    stream.write(sealed)


def read(stream: BinaryIO) -> Opened:
    """Return the files of an archive by name; raises PackError for one that `write` did not make.

    Nothing is unpacked before the sizes and names of all files are known to be allowed. The stream
    must stay open as long as files are read.
    """
    size_b = stream.seek(0, io.SEEK_END)
    if size_b > PACKED_MOST_B:
        raise PackError(STRUCTURE, f"larger than {PACKED_MOST_B} bytes")
    try:
        archive = zipfile.ZipFile(stream)
        entries = archive.infolist()
        try:
            _require_allowed(entries, size_b)
        except PackError:
            if _is_zipped_again(archive, entries, size_b):
                raise PackError(STRUCTURE, ZIPPED_AGAIN) from None
            raise
        digests = {entry.filename: _digest(archive, entry) for entry in entries}
    except PackError:
        raise
    except _UNREADABLE:
        raise PackError(
            STRUCTURE, "cannot be read: this is no ZIP archive, or a part of one"
        ) from None
    found = Opened(archive, digests)
    _require_checksums(found)
    end = max(0, size_b - len(_seal(hashlib.sha256())))
    sealed = _seal(_digest_of(stream, end))
    stream.seek(end)
    if stream.read() != sealed:
        raise PackError(STRUCTURE, ZIPPED_AGAIN)
    return found


def _is_zipped_again(
    archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], size_b: int
) -> bool:
    """Return whether an archive that no pack is has the files of one, as their checksums say.

    They may lie in a folder, as after unpacking and packing by hand.
    """
    files = {entry.filename: entry for entry in entries if not entry.is_dir()}
    named = [name for name in files if name.rpartition("/")[2] == CHECKSUMS]
    if (
        len(named) != 1
        or sum(entry.file_size for entry in entries) > EXPANDED_FREE_B + EXPANSION_MOST * size_b
    ):
        return False
    inside = named[0].removesuffix(CHECKSUMS)
    lines = archive.read(files[named[0]]).decode("ascii", "replace").splitlines()
    stated = [match for match in map(_LINE.fullmatch, lines) if match]
    return bool(stated) and all(
        inside + match[2] in files and _digest(archive, files[inside + match[2]]) == match[1]
        for match in stated
    )


def _seal(found: hashlib._Hash) -> bytes:
    return _SEAL + found.hexdigest().encode()


def digest_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of a whole stream as hexadecimal text."""
    return _digest_of(stream, stream.seek(0, io.SEEK_END)).hexdigest()


def _digest_of(stream: BinaryIO, end: int) -> hashlib._Hash:
    """Return the digest of a stream's first bytes."""
    found = hashlib.sha256()
    stream.seek(0)
    for at in range(0, end, CHUNK_B):
        found.update(stream.read(min(CHUNK_B, end - at)))
    return found


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
        if entry.file_size > FILE_MOST_B:
            raise PackError(entry.filename, f"expands to more than {FILE_MOST_B} bytes")
        if entry.compress_type != zipfile.ZIP_DEFLATED or entry.flag_bits:
            raise PackError(entry.filename, "is not stored as a pack stores its files")


def _digest(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    found = hashlib.sha256()
    for chunk in _content(archive, entry):
        found.update(chunk)
    return found.hexdigest()


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a file, never more than its declared size; raises PackError."""
    left = entry.file_size
    try:
        with archive.open(entry) as stream:
            while chunk := stream.read(min(CHUNK_B, left + 1)):
                left -= len(chunk)
                if left < 0:
                    break
                yield chunk
    except _UNREADABLE:
        raise PackError(
            entry.filename, f"was altered, or {STRUCTURE}: it cannot be unpacked"
        ) from None
    if left:
        raise PackError(entry.filename, "was altered: its size is not the stated one")


def _require_checksums(files: Files) -> None:
    """Raise PackError for the first file that is missing, foreign, or has another digest."""
    if CHECKSUMS not in files:
        raise PackError(CHECKSUMS, "is missing: this is no pack")
    if sum(map(len, files.chunks(CHECKSUMS))) > LINE_MOST_B * len(files):
        raise PackError(CHECKSUMS, "has lines that are none of its own")
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
        if files.digests[name] != stated[name]:
            raise PackError(name, f"was altered: its SHA-256 is not that of {CHECKSUMS}")
