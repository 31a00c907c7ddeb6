"""Refusing a bundle takes little memory, although each file is as large as the bounds allow."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gramwatt.service.evidence import DIRECTORY_MOST_B, DOCUMENT_MOST_B, EXPANSION_MOST, ITEMS_MOST
from tests.service.evidence.forge import members, sealed

MOST_B = 300e6
MEASURED = """
import resource, subprocess, sys
command = [sys.executable, "-m", "gramwatt", "evidence", "verify", sys.argv[1]]
print(subprocess.call(command), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def refusal(path: Path) -> str:
    """The errors of verifying a file, which fails within the memory."""
    command = [sys.executable, "-c", MEASURED, str(path)]
    child = subprocess.run(command, capture_output=True, text=True)
    code, used_kib = map(int, child.stdout.split()[-2:])
    assert (code, "Traceback" in child.stderr) == (1, False), child.stderr
    assert used_kib * 1024 < MOST_B
    return child.stderr


def filled(piece: bytes, size_b: int, start: bytes = b"[", end: bytes = b"0]") -> bytes:
    """A text of `size_b` bytes or a little less."""
    return start + piece * ((size_b - len(start) - len(end)) // len(piece)) + end


VALUES = ITEMS_MOST - 10
LISTS, OBJECTS = filled(b"[],", 3 * VALUES // 2), filled(b'{"a":1},', 8 * VALUES // 3)
FORGED = {
    "a document of long text": (
        "evidence.json",
        b'["\xf0\x9f\x8c\xb1' + b"a" * (DOCUMENT_MOST_B - 10) + b'"]',
    ),
    "lists": ("evidence.json", LISTS),
    "objects": ("evidence.json", OBJECTS),
    "numbers": ("evidence.json", filled(b"0,", 2 * VALUES)),
    "score": ("scores.ndjson", b'{"job_id":"job-1","a":' + OBJECTS + b"}\n"),
    "inputs": ("inputs.ndjson", b'{"job_id":"job-1","a":' + LISTS + b"}\n"),
    "overlay": ("overlay.toml", filled(b"[],", 3 * VALUES // 2, b"a=[", b"0]")),
    "month": ("month.json", LISTS),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_document_as_large_as_the_bounds_allow(bundle: bytes, tmp_path: Path, name: str) -> None:
    where, content = FORGED[name]
    assert len(content) <= DOCUMENT_MOST_B
    path, files = tmp_path / "forged.zip", members(bundle)
    files["journals.ndjson"] += os.urandom(2**19)  # so that the whole may unpack to as much
    path.write_bytes(sealed({**files, where: content}))
    assert " bytes are allowed" not in refusal(path)


def written(path: Path, name: str, chunks: Iterator[bytes], expanded_b: int) -> None:
    """An archive of a file in portions beside noise, so that the whole may unpack to so much."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("inputs.ndjson", "w") as stream:
            for _ in range(expanded_b // EXPANSION_MOST // 2**20 + 2):
                stream.write(os.urandom(2**20))
        with archive.open(name, "w", force_zip64=True) as stream:
            for chunk in chunks:
                stream.write(chunk)
        archive.writestr("sha256sums", b"x\n")


@pytest.mark.parametrize("piece", [b"0", b"\n", b"{}\n"])
def test_lines_as_large_as_the_bounds_allow(tmp_path: Path, piece: bytes) -> None:
    size_b, block = 2**28, piece * (2**20 // len(piece))
    path = tmp_path / "forged.zip"
    written(path, "journals.ndjson", (block for _ in range(size_b // len(block))), size_b)
    assert "are allowed" not in refusal(path)


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("journals.ndjson", b"\n"),
        ("journals.ndjson", b'{"job_id":"job-1"}\n'),
        ("inputs.ndjson", b"0"),
        ("scores.ndjson", b'{"job_id":"job-1"}\n'),
    ],
)
def test_lines_with_fitting_sums_are_read_one_by_one(
    bundle: bytes, tmp_path: Path, name: str, piece: bytes
) -> None:
    path, files = tmp_path / "forged.zip", members(bundle)
    files["overlay.toml"] = b"# " + os.urandom(2**20).hex().encode()  # as above
    path.write_bytes(sealed({**files, name: piece * (2**26 // len(piece))}, level=1))
    assert re.search(rf"{name}|job-1: cannot be scored again", refusal(path))


@pytest.mark.parametrize("wide", [True, False])
def test_a_list_of_files_beyond_the_bound_is_not_read(tmp_path: Path, wide: bool) -> None:
    fixed = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *([0] * 15))
    directory = (fixed[:28] + b"\1\0" + fixed[30:] + b"a") * (2**26 // 47)
    assert len(directory) > DIRECTORY_MOST_B
    files, size = (65535, 2**32 - 1) if wide else (1, len(directory))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, files, files, size, 0, 0)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(directory), 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(directory), 1)
    path = tmp_path / "forged.zip"
    path.write_bytes(directory + (record + locator if wide else b"") + end)
    assert "has a list of files larger than" in refusal(path)
