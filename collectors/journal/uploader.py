"""Send a spool folder to a server: NDJSON in batches, resumed where it stopped, safe to repeat.

The server answers up to which number it has each writer's lines; `uploaded.json` in the folder
keeps that for each server, since another one has none of the lines. An answer that is lost costs a
repeated batch, which the server knows to be duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from gramwatt.collectors.common import files
from gramwatt.collectors.common.config import plain_address
from gramwatt.collectors.common.http import Answer, Unanswered, exchange

BATCH_MAX_B = 1_000_000
BATCH_MAX_LINES = 5_000
ANSWER_LIMIT_S = 30.0
"""How long one body may take until its answer is whole [s], with all repetitions. Most jobs are one
body; each that is acknowledged is progress, and is not sent again."""
DOCUMENT_LIMIT_S = 10.0
"""How long the job's document may take [s]."""
MARKS = "uploaded.json"
NEWER = "newer-version"
"""Code of a line that only a newer release reads (sci/journal/records.py)."""


class ServerAway(Exception):
    """The server cannot be reached or is not answering; the journal stays spooled."""


class ServerRefused(Exception):
    """The server answered that it will not take this journal; the message says what to do."""


class JobDeleted(Exception):
    """The server has deleted the job and takes no line of it again; the message says when."""


@dataclass(slots=True)
class Sent:
    """The result of one folder's upload: lines accepted, and those refused with a reason.

    `rejected` lists the first of the refused lines, `refused` counts them all. `too_new` says that
    some are of a newer release than the server.
    """

    accepted: int = 0
    refused: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    too_new: bool = False


def upload(
    folder: Path, job_id: str, lines: Iterable[bytes], server: str, session: requests.Session
) -> Sent:
    """Send every line of the folder that the server has not acknowledged.

    Raises ServerAway, ServerRefused or JobDeleted; what was acknowledged before that is not sent
    again.
    """
    marks = read_marks(folder, server)
    sent = Sent()
    for batch in batches(unsent(lines, marks)):
        answer = _post(session, f"{server}/v1/jobs/{job_id}/records", batch)
        sent.accepted += answer["accepted"]
        sent.rejected += answer["rejected"]
        sent.refused += _refused_lines(answer)
        sent.too_new |= NEWER in (answer.get("rejected_codes") or ())
        for item in answer["acknowledged"]:
            if item.get("node") in (None, folder.name):
                writer = str(item["writer"])
                marks[writer] = max(marks.get(writer, 0), int(item["seq"]))
        _write_marks(folder, server, marks)
    return sent


def unsent(lines: Iterable[bytes], marks: dict[str, int]) -> Iterator[bytes]:
    """Yield the lines above their writer's mark, without the state lines of open files."""
    for line in lines:
        try:
            record = json.loads(line)
            writer, seq = record["writer"], record["seq"]
        except (ValueError, KeyError, TypeError):
            continue
        if seq > marks.get(writer, 0):
            yield line.rstrip(b"\n") + b"\n"


def batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to bodies of at most BATCH_MAX_B bytes and BATCH_MAX_LINES lines."""
    body: list[bytes] = []
    size_b = 0
    for line in lines:
        if body and (size_b + len(line) > BATCH_MAX_B or len(body) >= BATCH_MAX_LINES):
            yield b"".join(body)
            body, size_b = [], 0
        body.append(line)
        size_b += len(line)
    if body:
        yield b"".join(body)


def fetch_document(job_id: str, server: str, session: requests.Session) -> dict[str, Any] | None:
    """Return the job's document as the server scores it; None when it has none or is away.

    Raises ServerRefused when the key may not read it.
    """
    url = f"{server}/v1/jobs/{job_id}/report"

    try:
        headers = {"Accept": "application/json"}
        answer = exchange(session, "GET", url, DOCUMENT_LIMIT_S, headers=headers)
        document = answer.json() if answer.ok else None
    except (Unanswered, ValueError):
        return None
    if answer.status in (401, 403):
        text = f"{plain_address(server)} does not show the score to this key ({answer.status})"
        raise ServerRefused(f"{text}; one of scope read may see it")
    return document if isinstance(document, dict) else None


def read_marks(folder: Path, server: str) -> dict[str, int]:
    """Return the highest line of each writer that this server has acknowledged; empty for none."""
    return _marks_by_server(folder).get(plain_address(server), {})


def _marks_by_server(folder: Path) -> dict[str, dict[str, int]]:
    try:
        document = json.loads((folder / MARKS).read_text("utf-8"))
        return {
            str(server): {str(writer): int(seq) for writer, seq in marks.items()}
            for server, marks in document.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return {}  # everything is sent again, which is harmless


def _write_marks(folder: Path, server: str, marks: dict[str, int]) -> None:
    by_server = {**_marks_by_server(folder), plain_address(server): marks}
    with suppress(OSError):  # a full disk: the next upload repeats what this one sent
        files.replace_text(folder / MARKS, json.dumps(by_server))


def _post(session: requests.Session, url: str, body: bytes) -> dict[str, Any]:
    headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
    shown = plain_address(url)

    try:
        answer = exchange(session, "POST", url, ANSWER_LIMIT_S, data=body, headers=headers)
    except Unanswered as error:
        raise ServerAway(f"{shown} {error}") from None
    return _checked_answer(answer, shown, body.count(b"\n"))


def _checked_answer(answer: Answer, shown: str, lines: int) -> dict[str, Any]:
    """Return the answer to a batch, checked: it must account for each of `lines` lines.

    Raises ServerAway, ServerRefused or JobDeleted.
    """
    status = answer.status
    if status in (408, 425, 429) or status >= 500:
        raise ServerAway(f"{shown} answers {status}")
    if 300 <= status < 400 and (place := answer.headers.get("Location")):
        raise ServerAway(f"{shown} redirects to {place[:200]}; check the address")
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict) or (answer.ok and _answered_lines(document) < lines):
        raise ServerAway(f"{shown} answers {status}, not as gramwatt does; check the address")
    if not answer.ok:
        reason = document.get("detail") or "check the server address and the key"
        text = " ".join(str(reason).split())[:300]
        if (status, document.get("code")) == (410, "deleted-job"):
            raise JobDeleted(f"{shown}: {text}")
        raise ServerRefused(f"{shown} refuses with {status}: {text}")
    return document


def _answered_lines(document: dict[str, Any]) -> int:
    """Count the lines accepted, known or refused; -1 for an answer that is not of that form."""
    counts = [document.get("accepted"), document.get("duplicate")]
    rejected, acknowledged = document.get("rejected"), document.get("acknowledged")
    if not (isinstance(rejected, list) and isinstance(acknowledged, list)):
        return -1
    well_formed = all(isinstance(item, dict) for item in rejected) and all(
        isinstance(item, dict) and "writer" in item and isinstance(item.get("seq"), int)
        for item in acknowledged
    )
    numbers = [count for count in counts if isinstance(count, int)]
    if len(numbers) < len(counts) or not well_formed:
        return -1
    return sum(numbers) + _refused_lines(document)


def _refused_lines(document: dict[str, Any]) -> int:
    """Count the lines refused, of which a server lists only the first."""
    listed, counted = len(document["rejected"]), document.get("rejected_count")
    return max(listed, counted) if isinstance(counted, int) else listed
