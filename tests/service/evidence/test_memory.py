"""Refusing a bundle takes little memory, although each file is as large as the bounds allow."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gramwatt.service.evidence import DIRECTORY_MOST_B, DOCUMENT_MOST_B, ITEMS_MOST
from tests.service.evidence.forge import members, sealed

MOST_B = 300e6
MEASURED = """
import re, sys
from gramwatt.service.evidence import EvidenceError, verify
try:
    with open(sys.argv[1], "rb") as stream:
        print(*verify(stream).wrong, sep="; ")
except EvidenceError as error:
    print(error.message)
print(re.search(r"VmHWM:[^0-9]+([0-9]+)", open("/proc/self/status").read())[1])
"""


def refusal(path: Path) -> str:
    """Why a file is refused, which takes no more than the memory."""
    command = [sys.executable, "-c", MEASURED, str(path)]
    child = subprocess.run(command, capture_output=True, text=True)
    said, used_kib = child.stdout.splitlines()
    assert (child.stderr, int(used_kib) * 1024 < MOST_B) == ("", True), used_kib
    return said


def filled(piece: bytes, size_b: int, start: bytes = b"[", end: bytes = b"0]") -> bytes:
    """A text of `size_b` bytes or a little less."""
    return start + piece * ((size_b - len(start) - len(end)) // len(piece)) + end


VALUES = ITEMS_MOST - 10
OBJECTS = filled(b'{"a":1},', 8 * VALUES // 3)
LONG = b'["\xf0\x9f\x8c\xb1' + b"a" * (DOCUMENT_MOST_B - 10) + b'"]'
LINE = b'{"job_id":"job-1"}\n'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("evidence.json", LONG, "evidence.json: is not a JSON object"),
        ("evidence.json", filled(b"0,", 2 * VALUES), "evidence.json: is not a JSON object"),
        ("month.json", OBJECTS, "month.json: is not a file of this bundle"),
        ("scores.ndjson", b'{"job_id":"job-1","a":' + OBJECTS + b"}\n", "job-1: name is null"),
        ("inputs.ndjson", b'{"job_id":"job-1","a":' + OBJECTS + b"}\n", "cannot be scored again"),
        ("overlay.toml", filled(b"[],", 3 * VALUES // 2, b"a=[", b"0]"), "cannot be used"),
        ("journals.ndjson", b"\n" * 2**26, "names no job"),
        ("journals.ndjson", LINE * 2**20, "cannot be scored again"),
        ("inputs.ndjson", b"0" * 2**26, "has a line of more than"),
        ("scores.ndjson", LINE * 2**21, "line 2 is not of the next job"),
    ],
    ids=range(10),
)
def test_a_file_as_large_as_the_bounds_allow(bundle, tmp_path, name, content, said):
    path, files = tmp_path / "forged.zip", members(bundle)
    # So that the whole may unpack to as much.
    files["overlay.toml"] = b"# " + os.urandom(2**20).hex().encode()
    path.write_bytes(sealed({**files, name: content}, level=1))
    assert said in refusal(path)


@pytest.mark.parametrize("wide", [True, False])
def test_a_list_of_files_beyond_the_bound_is_not_read(tmp_path, wide):
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
