"""Changes bundles as somebody with a ZIP program would."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from gramwatt.service import evidence
from gramwatt.service.evidence import SUMS, Verdict


def verify(content: bytes) -> Verdict:
    """What is found in a bundle."""
    return evidence.verify(io.BytesIO(content))


def members(content: bytes) -> dict[str, bytes]:
    """The files of a bundle, as any ZIP program reads them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(files: dict[str, bytes], level: int | None = None) -> bytes:
    """An archive of files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def sealed(files: dict[str, bytes], level: int | None = None) -> bytes:
    """A bundle of these files whose sums fit: a forgery without a flaw in its form."""
    rest = {name: content for name, content in files.items() if name != SUMS}
    lines = (
        f"{hashlib.sha256(rest[name]).hexdigest()}  {name}\n"
        for name in sorted(rest.keys() - {evidence.SIGNATURE})
    )
    return zipped({**rest, SUMS: "".join(lines).encode()}, level)


def with_json(
    content: bytes, name: str, change: Callable[[Any], None], job_id: str = "job-1"
) -> bytes:
    """The bundle with a change of a JSON file, or of a job's line of one, and fitting sums."""
    files = members(content)
    texts = files[name].splitlines() if name.endswith(".ndjson") else [files[name]]
    documents = [json.loads(text) for text in texts]
    for document in documents:
        if len(documents) == 1 or document["job_id"] == job_id:
            change(document)
    files[name] = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    return sealed(files)


def changed(*figures: str) -> Callable[[Any], None]:
    """A change of the values at paths of a document: a number doubles, a text is another."""

    def change(document: Any) -> None:
        for figure in figures:
            *above, last = figure.split(".")
            row = document
            for name in above:
                row = row[int(name) if isinstance(row, list) else name]
            key = int(last) if isinstance(row, list) else last
            row[key] = "x" if isinstance(row[key], str) else row[key] * 2

    return change


def numbers(document: Any, path: str = "") -> dict[str, float]:
    """The numbers of a document but zero, by their paths."""
    if isinstance(document, int | float):
        return {path: document} if document and not isinstance(document, bool) else {}
    if not isinstance(document, dict | list):
        return {}
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    below = (numbers(value, f"{path}.{key}".strip(".")) for key, value in pairs)
    return {name: value for of in below for name, value in of.items()}
