"""Sending a spool folder to a server: NDJSON in batches, resumed where it stopped, safe to repeat.

The server answers how far it has each writer's lines; `uploaded.json` in the folder remembers it.
An answer that is lost costs a repeated batch, which the server recognises as duplicate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from gramwatt.collectors import private

BATCH_MAX_B = 1_000_000
BATCH_MAX_LINES = 5_000
TIMEOUT_S = (3.05, 30.0)
"""Connecting and reading [s]; the first is above TCP's 3 s retransmission, as requests advises."""
OPEN_SUFFIX = "-open"
MARKS = "uploaded.json"


class ServerAway(Exception):
    """The server cannot be reached or is not answering; the journal stays spooled."""


class ServerRefused(Exception):
    """The server answered that it will not take this journal; the message says what to do."""


@dataclass(slots=True)
class Sent:
    """What one folder's upload did: lines taken, known already, and refused with their reason."""

    accepted: int = 0
    duplicate: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)


def new_session(api_key: str | None) -> requests.Session:
    """An HTTP session that repeats what is safe; POST is, because lines have identities."""
    retry = Retry(
        total=3,
        connect=1,
        backoff_factor=0.3,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=None,
        raise_on_status=False,
    )
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    if api_key:
        session.headers["Authorization"] = f"Bearer {api_key}"
    return session


def upload(
    folder: Path, job_id: str, lines: Iterable[bytes], server: str, session: requests.Session
) -> Sent:
    """Send every line of the folder that the server has not acknowledged.

    Raises ServerAway or ServerRefused; what was acknowledged before that is remembered.
    """
    marks = read_marks(folder)
    sent = Sent()
    for batch in batches(unsent(lines, marks)):
        answer = _post(session, f"{server}/v1/jobs/{job_id}/records", batch)
        sent.accepted += int(answer.get("accepted", 0))
        sent.duplicate += int(answer.get("duplicate", 0))
        sent.rejected += answer.get("rejected") or []
        for item in answer.get("acknowledged") or []:
            if item.get("node") in (None, folder.name):
                writer = str(item["writer"])
                marks[writer] = max(marks.get(writer, 0), int(item["seq"]))
        _write_marks(folder, marks)
    return sent


def unsent(lines: Iterable[bytes], marks: dict[str, int]) -> Iterator[bytes]:
    """The lines above their writer's mark; the state line of an open file is nobody's business."""
    for line in lines:
        try:
            record = json.loads(line)
            writer, seq = record["writer"], record["seq"]
        except (ValueError, KeyError, TypeError):
            continue
        if seq > marks.get(writer, 0):
            yield line.rstrip(b"\n") + b"\n"


def batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines joined to bodies of at most BATCH_MAX_B bytes and BATCH_MAX_LINES lines."""
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
    """The job's document as the server scores it; None when it has none or is away."""
    url = f"{server}/v1/jobs/{job_id}/report"
    try:
        answer = session.get(url, headers={"Accept": "application/json"}, timeout=TIMEOUT_S)
        document = answer.json() if answer.ok else None
    except (requests.RequestException, ValueError):
        return None
    return document if isinstance(document, dict) else None


def read_marks(folder: Path) -> dict[str, int]:
    """The highest acknowledged line of each writer; empty when nothing was sent or it is broken."""
    try:
        marks = json.loads((folder / MARKS).read_text("utf-8"))
        return {str(writer): int(seq) for writer, seq in marks.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}  # everything is sent again, which is harmless


def _write_marks(folder: Path, marks: dict[str, int]) -> None:
    beside = folder / f".{MARKS}.{os.getpid()}"
    try:
        private.write_text(beside, json.dumps(marks))
        os.replace(beside, folder / MARKS)
    except OSError:  # a full disk: the next upload repeats what this one sent
        beside.unlink(missing_ok=True)


def _post(session: requests.Session, url: str, body: bytes) -> dict[str, Any]:
    headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
    try:
        answer = session.post(
            url, data=body, headers=headers, timeout=TIMEOUT_S, allow_redirects=False
        )
    except requests.RequestException as error:
        raise ServerAway(f"{url} cannot be reached ({type(error).__name__})") from None
    if answer.status_code in (408, 425, 429) or answer.status_code >= 500:
        raise ServerAway(f"{url} answers {answer.status_code}")
    try:
        document = answer.json()
    except ValueError:
        document = None
    if answer.ok and isinstance(document, dict):
        return document
    reason = (document or {}).get("detail") if isinstance(document, dict) else None
    reason = reason or "check the server address and the key"
    raise ServerRefused(f"{url} refuses with {answer.status_code}: {reason}")
