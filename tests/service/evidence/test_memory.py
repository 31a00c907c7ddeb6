"""Refusing a bundle takes little memory, although each file is as large as the bounds allow."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from gramwatt.service.evidence.verify import (
    DIRECTORY_MOST_B,
    DOCUMENT_MOST_B,
    EXPANSION_MOST,
    FILES_MOST,
    ITEMS_MOST,
    SIZES,
)
from tests.service.evidence.forge import members, sealed

MOST_B = 300e6
MEASURED = """
import resource, subprocess, sys
command = [sys.executable, "-m", "gramwatt", "evidence", "verify", sys.argv[1]]
print(subprocess.call(command), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measured(path: Path) -> tuple[int, str, int]:
    """The exit code of verifying a file, its errors, and its peak memory [B]."""
    command = [sys.executable, "-c", MEASURED, str(path)]
    child = subprocess.run(command, capture_output=True, text=True)
    code, used_kib = map(int, child.stdout.split()[-2:])
    return code, child.stderr, used_kib * 1024


def filled(piece: bytes, size_b: int, start: bytes = b"[", end: bytes = b"0]") -> bytes:
    """A text of `size_b` bytes or a little less."""
    return start + piece * ((size_b - len(start) - len(end)) // len(piece)) + end


VALUES = ITEMS_MOST - 10
FORGED = {
    "a document of long text": (
        "evidence.json",
        b'["\xf0\x9f\x8c\xb1' + b"a" * (DOCUMENT_MOST_B - 10) + b'"]',
    ),
    "lists": ("evidence.json", filled(b"[],", 3 * VALUES // 2)),
    "objects": ("evidence.json", filled(b'{"a":1},', 8 * VALUES // 3)),
    "numbers": ("evidence.json", filled(b"0,", 2 * VALUES)),
    "score": ("jobs/job-1/score.json", filled(b'{"a":1},', 8 * VALUES // 3)),
    "inputs": ("jobs/job-1/inputs.json", filled(b"[[],0],", 7 * VALUES // 4)),
    "overlay": ("overlay.toml", filled(b"[],", 3 * VALUES // 2, b"a=[", b"0]")),
    "month": ("month.json", filled(b"[[],0],", 7 * VALUES // 4)),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_document_as_large_as_the_bounds_allow(bundle: bytes, tmp_path: Path, name: str) -> None:
    where, content = FORGED[name]
    assert len(content) <= DOCUMENT_MOST_B
    path = tmp_path / "forged.zip"
    padding = os.urandom(2**19)  # so that the whole may unpack to as much
    path.write_bytes(sealed({**members(bundle), "jobs/x/journal.ndjson": padding, where: content}))
    code, err, used_b = measured(path)
    assert (code, "Traceback" in err) == (1, False), err
    assert " bytes are allowed" not in err
    assert used_b < MOST_B


def written(path: Path, name: str, chunks: Iterator[bytes], expanded_b: int) -> None:
    """An archive of a file in portions beside noise, so that the whole may unpack to so much."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        noise = os.urandom(2**20)
        rest_b = expanded_b // EXPANSION_MOST + 2**20
        for number in range(rest_b // 2**20 + 1):
            archive.writestr(f"jobs/noise-{number}/score.json", noise)
        with archive.open(name, "w", force_zip64=True) as stream:
            for chunk in chunks:
                stream.write(chunk)
        if name != "sha256sums":
            archive.writestr("sha256sums", b"x\n")


LINES = {
    "sums": ("sha256sums", b"0" * 64 + b"  jobs/a/score.json\n"),
    "sums of empty lines": ("sha256sums", b"\n"),
    "sums of one line": ("sha256sums", b"0"),
    "a month before": ("month-before.ndjson", b"{}\n"),
    "a journal": ("jobs/job-1/journal.ndjson", b"0"),
}


@pytest.mark.parametrize("case", LINES)
def test_lines_as_large_as_the_bounds_allow(tmp_path: Path, case: str) -> None:
    name, piece = LINES[case]
    size_b = min(SIZES[name.rpartition("/")[2]], 2**28)
    block = piece * (2**20 // len(piece))
    path = tmp_path / "forged.zip"
    written(path, name, (block for _ in range(size_b // len(block))), size_b)
    code, err, used_b = measured(path)
    assert (code, "Traceback" in err) == (1, False), err
    assert "are allowed" not in err
    assert used_b < MOST_B


def lined(bundle: bytes, name: str, content: bytes, path: Path) -> None:
    noise = {f"jobs/noise-{n}/score.json": os.urandom(2**20) for n in range(2)}
    path.write_bytes(sealed({**members(bundle), **noise, name: content}, level=1))


@pytest.mark.parametrize("piece", [b"\n", b"0", b'{"a":0}\n'])
def test_a_journal_with_fitting_sums_is_read_by_the_line(
    bundle: bytes, tmp_path: Path, piece: bytes
) -> None:
    path = tmp_path / "forged.zip"
    lined(bundle, "jobs/job-1/journal.ndjson", piece * (2**27 // len(piece)), path)
    code, err, used_b = measured(path)
    assert (code, "Traceback" in err) == (1, False), err
    assert "jobs/job-1: cannot be scored again" in err
    assert used_b < MOST_B


def test_a_month_before_with_fitting_sums_is_read_by_the_line(month: bytes, tmp_path: Path) -> None:
    path = tmp_path / "forged.zip"
    piece = b'{"job_id":"","started_us":0,"texts":"","numbers":""}\n'
    lined(month, "month-before.ndjson", piece * (SIZES["month-before.ndjson"] // len(piece)), path)
    code, err, used_b = measured(path)
    assert (code, "Traceback" in err) == (1, False), err
    assert "are allowed" not in err
    assert used_b < MOST_B


def listed(path: Path, names: Iterable[str]) -> None:
    """An archive whose list names empty files, of which nothing else is there."""
    fixed = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *([0] * 15))
    entries = [
        fixed[:28] + len(name).to_bytes(2, "little") + fixed[30:] + name.encode() for name in names
    ]
    directory = b"".join(entries)
    wide = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, *[len(entries)] * 2, len(directory), 0
    )
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(directory), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    path.write_bytes(directory + wide + locator + end)


@pytest.mark.parametrize(
    ("files", "letters", "message"),
    [
        (FILES_MOST, 20, "sha256sums: is missing"),
        (FILES_MOST + 1, 20, f"has more than {FILES_MOST} files"),
        (DIRECTORY_MOST_B // 47, 0, f"has more than {FILES_MOST} files"),
        (FILES_MOST, 200, "has a list of files larger than"),
    ],
)
def test_a_list_of_files_as_long_as_the_bounds_allow(
    tmp_path: Path, files: int, letters: int, message: str
) -> None:
    path = tmp_path / "forged.zip"
    names = (f"jobs/{n:0{letters}d}/score.json" if letters else "a" for n in range(files))
    listed(path, names)
    code, err, used_b = measured(path)
    assert (code, message in err) == (1, True), err
    assert used_b < MOST_B
