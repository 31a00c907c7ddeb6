"""The archive of a pack: whatever byte changes, reading fails and names the part."""

from __future__ import annotations

import hashlib
import io
import random
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gramwatt.service.packs import archive
from gramwatt.service.packs.archive import CHECKSUMS, STRUCTURE, PackError
from tests.service.packs.forge import digests, read, sealed, write

FILES = {
    "pack.json": b'{"format": 1}\n',
    "jobs/a/journal.ndjson": b'{"energy_j":36000.0,"seq":1}\n' * 40,
    "report.pdf": bytes(range(256)) * 8,
}
PACK = sealed(FILES)


def part_at(position: int) -> set[str]:
    """The parts that a byte of PACK belongs to: a file's own bytes, or the structure."""
    with zipfile.ZipFile(io.BytesIO(PACK)) as opened:
        for entry in opened.infolist():
            end = entry.header_offset + 30 + len(entry.filename) + entry.compress_size
            if entry.header_offset <= position < end:
                # The structure, because bits that pad compressed data change no content.
                return {entry.filename, STRUCTURE}
    return {STRUCTURE, *FILES, CHECKSUMS}  # the central directory has an entry for each


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(PACK) - 1), st.integers(1, 255))
@example(0, 1)
@example(len(PACK) - 1, 1)
def test_any_changed_byte_is_found_and_its_part_named(position: int, mask: int) -> None:
    changed = bytearray(PACK)
    changed[position] ^= mask
    with pytest.raises(PackError) as caught:
        read(bytes(changed))
    message = caught.value.message
    assert any(part in message for part in part_at(position)), message
    assert message.startswith(caught.value.part)


def test_every_byte_is_covered() -> None:
    """One bit of each byte: none is without meaning."""
    for position in range(len(PACK)):
        changed = bytearray(PACK)
        changed[position] ^= 1 << position % 8
        with pytest.raises(PackError):
            read(bytes(changed))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(PACK) - 1), st.binary(min_size=0, max_size=3))
def test_cut_and_grown_archives_are_refused(position: int, more: bytes) -> None:
    for changed in (PACK[:position], PACK[:position] + more + b"x" + PACK[position:]):
        with pytest.raises(PackError):
            read(changed)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_what_is_no_archive_is_refused(content: bytes) -> None:
    with pytest.raises(PackError):
        read(content)


NAMES = st.builds(
    "/".join, st.lists(st.text("aB3", min_size=1, max_size=3), min_size=1, max_size=3)
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=5))
def test_files_come_back_as_they_were(files: dict[str, bytes]) -> None:
    content = sealed(files)
    assert {**read(content), CHECKSUMS: b""} == {**files, CHECKSUMS: b""}
    assert sealed(dict(reversed(files.items()))) == content


def crafted(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive made by a ZIP program, with the seal that fits it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as opened:
        for name, content in entries:
            opened.writestr(name, content)
        opened.comment = seal(b"")
    content = stream.getvalue()[: -len(seal(b""))]
    return content + seal(content)


def seal(content: bytes) -> bytes:
    return b"sha256 of the bytes before: " + hashlib.sha256(content).hexdigest().encode()


@pytest.mark.parametrize(
    "name",
    ["../up", "/etc/passwd", "a/../../b", "a\\b", "C:/x", "a//b", ".hidden", "a/", "n\u00e4"],
)
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(PackError, match="has a file with the name"):
        read(crafted([(name, b"x")]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_refused() -> None:
    with pytest.raises(PackError, match="names a file twice"):
        read(crafted([("a", b"1"), ("a", b"2")]))


def test_other_ways_to_store_are_refused() -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(PackError, match="not stored as a pack stores"):
            read(crafted([("a", b"1" * 100)], method))


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = crafted_bomb()
    assert len(bomb) < 100_000
    opened = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *args, **kwargs: opened.append(args))
    with pytest.raises(PackError, match="expands to 73400320 bytes, 16777216 are allowed"):
        read(bomb)
    assert opened == []


def crafted_bomb() -> bytes:
    """70 MB of zeros in 70 kB."""
    return crafted([("zeros", bytes(70 * 2**20))])


def test_a_file_that_states_less_than_it_holds_is_cut_and_refused() -> None:
    """A false size cannot be used to unpack more than was checked."""
    content = bytearray(crafted([("zeros", bytes(10_000))]))
    stated = (10_000).to_bytes(4, "little")
    assert content.count(stated) == 2  # local header and central directory
    with pytest.raises(PackError) as caught:
        read(bytes(content).replace(stated, (10).to_bytes(4, "little")))
    assert caught.value.part == "zeros"


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FILES_MOST", 2)
    with pytest.raises(PackError, match="more than 2 files"):
        read(crafted([("a", b""), ("b", b""), ("c", b"")]))


def test_a_pack_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "PACKED_MOST_B", len(PACK) - 1)
    with pytest.raises(PackError, match="larger than"):
        read(PACK)


def test_a_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FILE_MOST_B", 9)
    with pytest.raises(PackError, match="a: expands to more than 9 bytes"):
        read(crafted([("a", b"1" * 10)]))


def test_packs_hold_little_in_memory(tmp_path: Path) -> None:
    """A pack of 60 MB is written and read within a tenth of that."""
    block = random.Random(1).randbytes(2**20)
    tracemalloc.start()
    try:
        path = tmp_path / "pack.zip"
        with archive.Collected(tmp_path) as files, path.open("w+b") as stream:
            for number in range(60):
                files.add(f"jobs/{number:02d}/journal.ndjson", number.to_bytes(8), block)
            files.add(CHECKSUMS, archive.checksums(files.digests))
            archive.write(files, stream)
            found = archive.read(stream)
            assert sum(len(found[name]) for name in found) > 60 * 2**20
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda files: files.pop("report.pdf"), "report.pdf"),
        (lambda files: files.update({"more.txt": b"x"}), "more.txt"),
        (lambda files: files.update({"pack.json": b"{}"}), "pack.json"),
        (lambda files: files.update({CHECKSUMS: b"nonsense\n"}), CHECKSUMS),
        (lambda files: files.pop(CHECKSUMS), CHECKSUMS),
    ],
)
def test_files_and_checksums_must_agree(change, part: str) -> None:
    files = {**FILES, CHECKSUMS: archive.checksums(digests(FILES))}
    change(files)
    with pytest.raises(PackError) as caught:
        read(write(files))
    assert caught.value.part == part


def test_checksums_are_those_of_sha256sum() -> None:
    assert archive.checksums(digests({"b": b"", "a": b"abc"})).decode() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
    )
    assert zlib.crc32(b"abc") == 0x352441C2  # the archive's own check is a weaker one
