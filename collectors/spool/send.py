"""Bring journals to where they are scored: `gramwatt sync` sends them to a server, or has the store
of this machine take them.

A server is sent NDJSON in batches, resumed where it stopped, safe to repeat. It answers up to which
number it has each writer's lines; `uploaded.json` in the folder keeps that for each server, since
another one has none of the lines. An answer that is lost costs a repeated batch, which the server
knows to be duplicate.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from gramwatt.collectors.settings import files
from gramwatt.collectors.settings.config import Config, plain_address
from gramwatt.collectors.settings.http import Answer, Unanswered, exchange, new_session
from gramwatt.collectors.settings.installation import LocalStore
from gramwatt.collectors.settings.progress import busy, each
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.sci.figures.errors import RecordError

if TYPE_CHECKING:
    from requests import Session

BATCH_MAX_B = 1_000_000
BATCH_MAX_LINES = 5_000
ANSWER_LIMIT_S = 30.0
"""How long one body may take until its answer is whole [s], with all repetitions. Most jobs are one
body; each that is acknowledged is progress, and is not sent again."""
MARKS = "uploaded.json"
NEWER = "newer-version"
"""Code of a line that only a newer release reads (sci/records/records.py)."""
NEIGHBOURS = 50
"""Other jobs' folders that the sync of one job looks at, newest first: it must not take long."""
GRACE_S = 1.0
"""How old the journal of a job is before it leaves the spool behind it [s]: its line is made from
it. A younger one belongs to a job whose own scoring waits in line."""
AWAY, NO_KEY = "server-away", "key-refused"
"""Why a server takes no journal now: it does not answer, or does not know the key."""
FAILED, REFUSED, DELETED = "server-failed", "server-refused", "job-deleted"
"""Why it has not taken this one: it fails over it, takes it not as it is, or not again."""


class Problem(NamedTuple):
    """What went wrong, for programs and for people."""

    code: str
    text: str


class NotTaken(Exception):
    """A server did not take a journal or show a score; `code` is AWAY, NO_KEY, FAILED, REFUSED or
    DELETED.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class TooLarge(Exception):
    """A body is larger than a server, or a proxy before it, takes."""


class NotThere(NotTaken):
    """A server refuses lines because it has no job of the id, or shows none to this key."""


class SyncResult(Struct):
    """What one sync did, by job id; `remarks` are sentences for people, as are the problems' texts.

    `server` is where the one job that was asked for belongs; None for the store. Any problem means
    exit code 1.
    """

    closed: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    scored: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    server: str | None = None


class Sent(Struct):
    """The result of one folder's upload: lines accepted, and those refused with a reason.

    `rejected` lists the first of the refused lines, `refused` counts them all. `too_new` says that
    some are of a newer release than the server.
    """

    accepted: int = 0
    refused: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    too_new: bool = False


def sync(
    config: Config, store: LocalStore | None, job_id: str | None = None, *, shown: bool = False
) -> SyncResult:
    """Close dead folders, then send or score them: those of one job, or of all.

    With `shown` a terminal shows how far it is. Raises OSError when no home can be used, and a
    GramwattError of the store.
    """
    result = SyncResult()
    spool.usable_home(config.home)  # raises where closing a journal could not be written
    folders = [folder for folder in spool.folders(config.home, job_id) if _close(folder, result)]
    if job_id:
        result.closed += _close_neighbours(config.home, job_id)
    by_server = _by_server(config, folders, result)
    for server, own in by_server.items():
        _send(config, server, each(own, "sending") if shown else own, result)
    if config.server is not None or (job_id and by_server):
        result.server = config.server or next(iter(by_server))
        return result
    local = [folder for folder in folders if folder.server() is None]
    if store is None:
        result.waiting = sorted({folder.job_id for folder in local})
        return result
    with busy("ingesting journals") if shown else nullcontext():
        result.scored = store.ingest(config.home, job_id)
    result.running = sorted({folder.job_id for folder in local if folder.is_live()})
    return result


def score_behind(config: Config, store: LocalStore) -> None:
    """Score the closed spools of this machine behind a job that has ended.

    One process does it at a time, and a second waits: it finds what ended meanwhile, so that any
    further one has nothing to do. Raises OSError when no home can be used.
    """
    writable = spool.usable_home(config.home, spool.LEAST_FREE_B)
    next_in_line = spool.acquire(writable / "sync-next.lock")
    if next_in_line is None:
        return
    at_work = os.open(writable / "sync.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(at_work, fcntl.LOCK_EX)
    os.close(next_in_line)  # the next one may find what this one has looked past
    time.sleep(GRACE_S)
    for folder in spool.folders(config.home)[-NEIGHBOURS:]:
        if folder.server() is None and folder.unclosed():
            close_dead(folder)
    spooled = spool.folders(config.home)
    ended = [folder.job_id for folder in spooled if time.time() - folder.changed_at() >= GRACE_S]
    for job_id in dict.fromkeys(ended):
        store.ingest(config.home, job_id)
    os.close(at_work)


def _by_server(
    config: Config, folders: Sequence[SpoolFolder], result: SyncResult
) -> dict[str, list[SpoolFolder]]:
    """Group folders by their server: the environment's, their own, else the configured one."""
    from_environment = config.origins.get("server", "").startswith("environment")
    configured = plain_address(config.server) if config.server else None
    groups: dict[str, list[SpoolFolder]] = {config.server: []} if config.server else {}
    elsewhere: dict[tuple[str, str], list[str]] = {}
    for folder in folders:
        own = folder.server()
        foreign = own is not None and own != configured
        server = own if foreign and not from_environment else config.server
        if server is not None:
            groups.setdefault(server, []).append(folder)
        if foreign and own and server:
            elsewhere.setdefault((own, plain_address(server)), []).append(folder.job_id)
    for (own, server), jobs in elsewhere.items():
        target = "there" if server == own else f"to {server}, which GRAMWATT_SERVER names"
        names = ", ".join(sorted(set(jobs))[:5])
        result.remarks.append(f"spooled for {own}, and goes {target}: {names}")
    return groups


def _close(folder: SpoolFolder, result: SyncResult) -> bool:
    """Close a folder if it is dead and open; False when nothing in it can be read, and it is kept
    elsewhere, so that it is reported once and no other journal waits for it.
    """
    try:
        if folder.unclosed() and close_dead(folder, strict=True):
            result.closed.append(folder.job_id)
    except RecordError as error:
        place = spool.reject(folder)
        text = f"{error.message}; it is kept in {place}"
        result.problems.append(Problem("journal-unreadable", text))
        return False
    return True


def _close_neighbours(home: Path, job_id: str) -> list[str]:
    """Close the newest dead jobs of this node but this one; their ids."""
    others = [folder for folder in spool.folders(home) if folder.job_id != job_id]
    newest = others[-NEIGHBOURS:]
    return [folder.job_id for folder in newest if folder.unclosed() and close_dead(folder)]


def _send(config: Config, server: str, folders: Iterable[SpoolFolder], result: SyncResult) -> None:
    with new_session(config.key_for(server)) as session:
        for folder in folders:
            try:
                _send_folder(folder, server, session, result)
            except NotTaken as error:
                if error.code == DELETED:
                    text = f"{error}; what was still spooled of it is dropped"
                    result.remarks.append(text)
                    if folder.is_closed():
                        spool.discard(folder)
                    continue
                later = " and `gramwatt sync` sends it" if error.code in (AWAY, FAILED) else ""
                text = f"{error}; the journal stays spooled{later}"
                result.problems.append(Problem(error.code, text))
                if error.code in (AWAY, NO_KEY):  # of the others too
                    return


def _send_folder(folder: SpoolFolder, server: str, session: Session, result: SyncResult) -> None:
    """Send a folder's lines; a closed one is deleted, or kept elsewhere with what was refused."""
    parts: list[Sent] = []

    def send(lines: Iterator[bytes]) -> None:
        try:
            parts.append(upload(folder.path, folder.job_id, lines, server, session))
        except NotThere:
            if not read_marks(folder.path, server):
                raise
            # It has lost what it acknowledged, as with a backup that was put back: from the start.
            _write_marks(folder.path, server, {})
            parts.append(upload(folder.path, folder.job_id, folder.lines(), server, session))

    with spool.sent(folder, send) as can_go:
        if can_go and not any(part.too_new for part in parts):
            if any(part.rejected for part in parts):
                spool.reject(folder)
            else:
                spool.discard(folder)
    result.sent.append(folder.job_id)
    refused = [line for part in parts for line in part.rejected]
    if refused:
        why = str(refused[0].get("message", "no reason given"))
        if any(part.too_new for part in parts):
            why = "the server is older than this meter; the journal stays spooled"
        text = f"{folder.job_id}: {sum(part.refused for part in parts)} lines refused: {why}"
        result.problems.append(Problem("lines-refused", text))


def upload(
    folder: Path, job_id: str, lines: Iterable[bytes], server: str, session: Session
) -> Sent:
    """Send every line of the folder that the server has not acknowledged.

    Raises NotTaken; what was acknowledged before that is not sent again.
    """
    marks = read_marks(folder, server)
    sent = Sent()
    url = f"{server}/v1/jobs/{job_id}/records"
    for answer in _answers(session, url, batches(unsent(lines, marks))):
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


def _answers(session: Session, url: str, bodies: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the answers to bodies; what is too large for a server, or a proxy, goes in halves."""
    for body in bodies:
        try:
            yield _post(session, url, body)
        except TooLarge:
            lines = body.splitlines(keepends=True)
            if len(lines) == 1:
                raise NotTaken(REFUSED, _too_large(url, "a line", body)) from None
            half = len(lines) // 2
            try:
                yield from _answers(session, url, map(b"".join, (lines[:half], lines[half:])))
            except NotThere:  # the server takes no half without the line that says what the job is
                raise NotThere(REFUSED, _too_large(url, "a body", body)) from None


def _too_large(url: str, what: str, body: bytes) -> str:
    """Return what a refusal for its size says, and what to do about it."""
    remedy = "a proxy there has to take larger bodies (nginx: client_max_body_size)"
    return f"{plain_address(url)} answers 413 to {what} of {len(body)} B; {remedy}"


def try_server(server: str, key: str | None, limit_s: float) -> None:
    """Send a server no line with this key, within `limit_s` [s]; raises NotTaken, as an upload."""
    with new_session(key, repeats=False) as session:
        url = f"{server}/v1/jobs/none/records"
        _post(session, url, b"", limit_s, plain_address(server))


def _post(
    session: Session, url: str, body: bytes, limit_s: float | None = None, shown: str = ""
) -> dict[str, Any]:
    shown = shown or plain_address(url)
    headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
    try:
        answer = exchange(
            session, "POST", url, limit_s or ANSWER_LIMIT_S, data=body, headers=headers
        )
    except Unanswered as error:
        raise NotTaken(AWAY, f"{shown} {error}") from None
    return _checked_answer(answer, shown, body.count(b"\n"))


def _checked_answer(answer: Answer, shown: str, lines: int) -> dict[str, Any]:
    """Return the answer to a batch, checked: it must account for each of `lines` lines.

    Raises NotTaken, or TooLarge.
    """
    status, document = answer.status, answer.document()
    if status == 413:
        raise TooLarge
    if status == 500:  # it fails over these lines, perhaps not over others
        raise NotTaken(FAILED, f"{shown} {answer.strange}")
    if answer.later or document is None or (answer.ok and _answered_lines(document) < lines):
        raise NotTaken(AWAY, f"{shown} {answer.strange}")
    if not answer.ok:
        reason = document.get("detail") or "check the server address and the key"
        text = " ".join(str(reason).split())[:300]
        if (status, document.get("code")) == (410, "deleted-job"):
            raise NotTaken(DELETED, f"{shown}: {text}")
        if (status, document.get("code")) == (404, "unknown-job"):
            raise NotThere(REFUSED, f"{shown} refuses with {status}: {text}")
        if status in (401, 403):
            text = (
                f"{text.rstrip('.')}; give a key that may by GRAMWATT_API_KEY or `gramwatt login`"
            )
        raise NotTaken(
            NO_KEY if status == 401 else REFUSED, f"{shown} refuses with {status}: {text}"
        )
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
