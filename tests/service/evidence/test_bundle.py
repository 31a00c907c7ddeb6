"""The file of a bundle: what is not one is refused unread, and what is altered is named."""

from __future__ import annotations

import io
import random
import tracemalloc
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.service import evidence
from gramwatt.service.evidence import FILE, SUMS, Bundle, EvidenceError
from tests.service.evidence.forge import members, sealed, verify, zipped

FILES = {
    "evidence.json": b'{"format": 1}\n',
    "journals.ndjson": b'{"energy_j":36000.0,"seq":1}\n' * 40,
    "scores.ndjson": bytes(range(256)) * 8,
}
WHOLE = sealed(FILES)


def read(content: bytes) -> dict[str, bytes]:
    bundle = Bundle(io.BytesIO(content))
    bundle.check_sums()
    return {name: b"".join(bundle.chunks(name)) for name in bundle.entries}


def result(content: bytes) -> tuple[dict[str, bytes], str]:
    """The files of an archive, or why it is refused."""
    try:
        return read(content), ""
    except EvidenceError as error:
        return {}, error.message


def test_a_changed_byte_of_a_file_is_named():
    """One bit of each byte of the files' own data; the file is named, or nothing has changed."""
    same = 0
    with zipfile.ZipFile(io.BytesIO(WHOLE)) as archive:
        entries = archive.infolist()
    for entry in entries:
        first = entry.header_offset + 30 + len(entry.filename)
        for position in range(first, first + entry.compress_size):
            altered = bytearray(WHOLE)
            altered[position] ^= 1 << position % 8
            files, message = result(bytes(altered))
            same += files == members(WHOLE)  # a bit that pads compressed data
            assert files == members(WHOLE) or entry.filename in message
    assert same < 20


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_changed_byte_is_refused_or_changes_nothing(position, mask):
    altered = bytearray(WHOLE)
    altered[position] ^= mask
    files, message = result(bytes(altered))
    assert files == members(WHOLE) or message


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3))
def test_cut_and_grown_archives_are_refused(position, more):
    for content in (WHOLE[:position], WHOLE + b"x" + more):
        with pytest.raises(EvidenceError):
            read(content)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_what_is_not_an_archive_is_refused(content):
    with pytest.raises(EvidenceError):
        read(content)


def crafted(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive made by a ZIP program."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    "name",
    ["../up", "/etc/passwd", "jobs/../../month.json", "a\\month.json", "./month.json", "jobs/"],
)
def test_names_of_other_files_are_refused(name):
    with pytest.raises(EvidenceError, match="which is not of an evidence bundle"):
        read(crafted([(name, b"x")]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(EvidenceError, match="evidence.json: is there twice"):
        read(crafted([("evidence.json", b"1"), ("evidence.json", b"2")]))


def test_other_kinds_of_compression_are_refused():
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(EvidenceError, match="compressed in a way that a bundle is not"):
            read(crafted([("evidence.json", b"1" * 100)], method))


def test_a_bundle_that_was_unpacked_and_zipped_again_is_the_same(bundle):
    files = members(bundle)
    again = crafted(list(reversed(files.items())), zipfile.ZIP_STORED)
    assert verify(again).outcome == "proven"


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    bomb = crafted([("journals.ndjson", bytes(70 * 2**20))])
    assert len(bomb) < 100_000
    opened = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *args, **kwargs: opened.append(args))
    with pytest.raises(EvidenceError, match="unpacks to 73400320 bytes, 16777216 are allowed"):
        read(bomb)
    assert opened == []


def test_a_file_that_states_less_than_it_holds_is_refused():
    """A false size cannot be used to unpack more than was checked."""
    content = bytearray(
        crafted([("evidence.json", bytes(10_000)), (SUMS, b"0" * 64 + b"  evidence.json\n")])
    )
    stated = (10_000).to_bytes(4, "little")
    assert content.count(stated) == 2  # local header and central directory
    with pytest.raises(EvidenceError) as caught:
        list(
            Bundle(io.BytesIO(bytes(content).replace(stated, (10).to_bytes(4, "little")))).chunks(
                "evidence.json"
            )
        )
    assert caught.value.part == "evidence.json"


@pytest.mark.parametrize(
    ("name", "most", "message"),
    [
        ("PACKED_MOST_B", len(WHOLE) - 1, "is larger than"),
        ("DIRECTORY_MOST_B", 100, "has a list of files larger than 100 bytes"),
        (
            "WHOLE",
            {**evidence.WHOLE, "evidence.json": 9},
            "evidence.json: unpacks to more than 9 b",
        ),
        ("EXPANDED_FREE_B", 9, "unpacks to "),
    ],
)
def test_what_is_above_a_bound_is_refused(name, most, message, monkeypatch):
    monkeypatch.setattr(evidence, name, most)
    monkeypatch.setattr(evidence, "EXPANSION_MOST", 1 if name == "EXPANDED_FREE_B" else 100)
    with pytest.raises(EvidenceError, match=message):
        read(WHOLE)


def test_a_document_of_too_many_values_is_named(bundle, monkeypatch):
    monkeypatch.setattr(evidence, "ITEMS_MOST", 3)
    with pytest.raises(EvidenceError, match="evidence.json: has more than 3 values"):
        verify(bundle)


def test_a_bundle_holds_little_in_memory(tmp_path):
    """One of 60 MB is read within a tenth of that."""
    block = random.Random(1).randbytes(2**20)
    with (
        zipfile.ZipFile(tmp_path / "a.zip", "w") as archive,
        archive.open("journals.ndjson", "w") as member,
    ):
        for number in range(60):
            member.write(number.to_bytes(8) + block)
    tracemalloc.start()
    try:
        with (tmp_path / "a.zip").open("rb") as stream:
            size_b = sum(map(len, Bundle(stream).chunks("journals.ndjson")))
        assert size_b > 60 * 2**20
        assert tracemalloc.get_traced_memory()[1] < 6 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda files: files.pop("scores.ndjson"), "scores.ndjson"),
        (lambda files: files.update({"inputs.ndjson": b"x"}), "inputs.ndjson"),
        (lambda files: files.update({"month.json": b"x"}), "month.json"),
        (lambda files: files.update({"overlay.toml": b"x"}), "overlay.toml"),
        (lambda files: files.update({"evidence.json": b"{}"}), "evidence.json"),
        (lambda files: files.update({SUMS: b"nonsense\n"}), SUMS),
        (lambda files: files.update({SUMS: b""}), "evidence.json"),
        (lambda files: files.pop(SUMS), SUMS),
    ],
)
def test_files_and_sums_must_agree(change, part):
    files = members(WHOLE)
    change(files)
    with pytest.raises(EvidenceError) as caught:
        read(zipped(files))
    assert caught.value.part == part


def test_the_sums_are_those_of_sha256sum():
    assert members(sealed({"overlay.toml": b"", "evidence.json": b"abc"}))[SUMS].decode() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  evidence.json\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  overlay.toml\n"
    )
    assert FILE == "the file"
