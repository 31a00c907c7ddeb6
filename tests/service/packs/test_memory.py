"""Verifying a small file takes little memory, whatever it unpacks to."""

import json
import subprocess
import sys

import pytest

from gramwatt.service.packs import archive
from gramwatt.service.packs.archive import CHECKSUMS, PackError
from tests.service.packs.forge import members, sealed, verify

MOST_B = 300e6
MEASURED = """
import resource, subprocess, sys
command = [sys.executable, "-m", "gramwatt", "verify", sys.argv[1]]
print(subprocess.call(command), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
SIZE = 15 * 2**20


def filled(piece, start=b"[", end=b"0]"):
    return start + piece * (SIZE // len(piece)) + end


FORGED = {
    "lists": ("pack.json", filled(b"[],")),
    "objects": ("pack.json", filled(b'{"a":1},')),
    "inputs": ("jobs/job-1/inputs.json", filled(b"[[],0],")),
    "text": ("jobs/job-1/score.json", b'["\xf0\x9f\x8c\xb1' + b"a" * SIZE + b'"]'),
    "overlay": ("inputs/overlay.toml", filled(b"[],", b"a=[", b"0]")),
    "lines": ("jobs/job-1/journal.ndjson", b"\n" * SIZE),
}


@pytest.mark.parametrize("name", [*FORGED, "checksums"])
def test_what_is_refused_takes_at_most_300_mb(pack: bytes, tmp_path, name):
    path = tmp_path / "pack.zip"
    if name == "checksums":
        path.write_bytes(_with_checksums(members(pack)))
    else:
        where, content = FORGED[name]
        path.write_bytes(sealed({**members(pack), where: content}))
    assert path.stat().st_size < 120_000
    command = [sys.executable, "-c", MEASURED, str(path)]
    child = subprocess.run(command, capture_output=True, text=True)
    code, used_kib = map(int, child.stdout.split()[-2:])
    assert code == 1, child.stderr
    assert "Traceback" not in child.stderr
    assert used_kib * 1024 < MOST_B


def _with_checksums(files):
    from tests.service.packs.forge import write

    return write({**files, CHECKSUMS: b"\n" * SIZE})


def test_a_document_of_too_many_values_is_named(pack: bytes, monkeypatch):
    monkeypatch.setattr(archive, "ITEMS_MOST", 3)
    with pytest.raises(PackError, match="pack.json: is larger than a document may be"):
        verify(pack)


def test_a_long_journal_is_no_document(pack: bytes, monkeypatch):
    files = members(pack)
    documents = (content for name, content in files.items() if not name.endswith(".ndjson"))
    most = max(len(content) for content in documents)
    monkeypatch.setattr(archive, "DOCUMENT_MOST_B", most)
    assert json.loads(files["pack.json"])["kind"] == "job"
    assert verify(pack).outcome == "proven"
