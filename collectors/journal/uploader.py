"""Send a spool folder to a server: NDJSON in batches, resumed where it stopped, safe to repeat.

The server answers up to which number it has each writer's lines; `uploaded.json` in the folder
keeps that. An answer that is lost costs a repeated batch, which the server knows to be duplicate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ProtocolError
from urllib3.util.retry import Retry

from gramwatt.collectors.common import files
from gramwatt.collectors.common.config import plain_address

BATCH_MAX_B = 1_000_000
BATCH_MAX_LINES = 5_000
TIMEOUT_S = (3.05, 10.0)
"""Connecting and reading [s]; the first is above TCP's 3 s retransmission, as requests advises."""
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
    """The result of one folder's upload: lines accepted, known already, refused with a reason.

    `rejected` lists the first of the refused lines, `refused` counts them all. `too_new` says that
    some are of a newer release than the server.
    """

    accepted: int = 0
    duplicate: int = 0
    refused: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    too_new: bool = False


def new_session(api_key: str | None) -> requests.Session:
    """An HTTP session that repeats what is safe; POST is, because lines have identities."""
    retry = Retry(
        total=2,
        connect=1,
        read=False,
        respect_retry_after_header=False,
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

    Raises ServerAway, ServerRefused or JobDeleted; what was acknowledged before that is not sent
    again.
    """
    marks = read_marks(folder)
    sent = Sent()
    for batch in batches(unsent(lines, marks)):
        answer = _post(session, f"{server}/v1/jobs/{job_id}/records", batch)
        sent.accepted += answer["accepted"]
        sent.duplicate += answer["duplicate"]
        sent.rejected += answer["rejected"]
        sent.refused += _refused_lines(answer)
        sent.too_new |= NEWER in (answer.get("rejected_codes") or ())
        for item in answer["acknowledged"]:
            if item.get("node") in (None, folder.name):
                writer = str(item["writer"])
                marks[writer] = max(marks.get(writer, 0), int(item["seq"]))
        _write_marks(folder, marks)
    return sent


def unsent(lines: Iterable[bytes], marks: dict[str, int]) -> Iterator[bytes]:
    """The lines above their writer's mark, without the state lines of open files."""
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
    """The job's document as the server scores it; None when it has none or is away.

    Raises ServerRefused when the key may not read it.
    """
    url = f"{server}/v1/jobs/{job_id}/report"

    def exchange() -> requests.Response:
        return session.get(url, headers={"Accept": "application/json"}, timeout=TIMEOUT_S)

    try:
        answer = _within(DOCUMENT_LIMIT_S, exchange)
        document = answer.json() if answer.ok else None
    except (requests.RequestException, TimeoutError, ValueError, RecursionError):
        return None
    if answer.status_code in (401, 403):
        text = f"{plain_address(server)} does not show the score to this key ({answer.status_code})"
        raise ServerRefused(f"{text}; one of scope read may see it")
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
        files.write_text(beside, json.dumps(marks))
        os.replace(beside, folder / MARKS)
    except OSError:  # a full disk: the next upload repeats what this one sent
        beside.unlink(missing_ok=True)


def _post(session: requests.Session, url: str, body: bytes) -> dict[str, Any]:
    headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
    shown = plain_address(url)

    def send() -> requests.Response:
        return session.post(
            url, data=body, headers=headers, timeout=TIMEOUT_S, allow_redirects=False
        )

    def exchange() -> requests.Response:
        try:
            return send()
        except requests.ConnectionError as error:
            if not (error.args and isinstance(error.args[0], ProtocolError)):
                raise
            # The server has closed the kept connection, as gunicorn does after a refusal for which
            # it had not read the body. Lines have identities, so sending again is harmless.
            return send()

    try:
        answer = _within(ANSWER_LIMIT_S, exchange)
    except (requests.Timeout, TimeoutError) as error:
        limit_s = ANSWER_LIMIT_S if isinstance(error, TimeoutError) else TIMEOUT_S[1]
        raise ServerAway(f"{shown} does not answer within {limit_s:g} s") from None
    except (requests.RequestException, ValueError) as error:
        raise ServerAway(f"{shown} cannot be reached ({type(error).__name__})") from None
    return _checked_answer(answer, shown, body.count(b"\n"))


def _checked_answer(answer: requests.Response, shown: str, lines: int) -> dict[str, Any]:
    """The answer to a batch of `lines` lines; it must account for each: the folder is deleted next.

    Raises ServerAway, ServerRefused or JobDeleted.
    """
    status = answer.status_code
    if status in (408, 425, 429) or status >= 500:
        raise ServerAway(f"{shown} answers {status}")
    if answer.is_redirect:
        raise ServerAway(
            f"{shown} redirects to {answer.headers['Location'][:200]}; check the address"
        )
    try:
        document = answer.json()
    except (ValueError, RecursionError):
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
    """Number of lines accepted, known or refused; -1 for an answer that is not of that form."""
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
    """Number of lines refused; a server lists only the first of many, an earlier one lists all."""
    listed, counted = len(document["rejected"]), document.get("rejected_count")
    return max(listed, counted) if isinstance(counted, int) else listed


def _within(limit_s: float, exchange: Callable[[], requests.Response]) -> requests.Response:
    """The exchange's answer; raises TimeoutError after `limit_s` [s], or what the exchange does.

    A read timeout starts again with every byte, so a server that sends slowly could hold us for
    ever. A late exchange goes on in its own thread, which uses no file and ends with the process.
    """
    answers: SimpleQueue[requests.Response | Exception] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(exchange())
        except Exception as error:
            answers.put(error)

    Thread(target=work, daemon=True).start()
    try:
        answer = answers.get(timeout=limit_s)
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer
