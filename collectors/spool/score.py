"""The document of a job, from where it is: its server, the store of this machine, or its journals.

And what its user reads of it at its end. The line is made from the journals when everything is in
them and no lock is held any more, by the engine that scores in the store too. So neither a database
nor a server is waited for where they know no more of the job than its spool. The engine is imported
when it is needed: it takes 0.1 s and 8 MB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import to_builtins

from gramwatt.collectors.settings.config import Config, plain_address
from gramwatt.collectors.settings.files import first_notice_today
from gramwatt.collectors.settings.installation import (
    LocalStore,
    has_service,
    install_command,
    local_store,
)
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.collectors.track.counts import JobFolder
from gramwatt.collectors.track.messages import unwritten_text

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc
    from gramwatt.sci.records.merge import MergedJob

Document = Mapping[str, Any]
SERVER_LIMIT_S = 10.0
"""How long a server's document may take [s]."""
STORED_WAIT_S, STORED_POLL_S = 2.0, 0.1
"""How long the store is waited for which another process gives a job's journal at this moment, and
how often it is asked [s]."""
REQUEST = "wanted"
"""File in a job's folder: who touches it has every meter there end its open intervals and save, so
that the journal has everything up to then."""
SAVED_TIMEOUT_S, SAVED_POLL_S = 2.5, 0.05
"""How long the meters are waited for [s]: each looks for a request once a second at least."""
LAST_MOST_S = 60.0
"""Length from which on a job is named by its id and not as the newest [s]."""
SIZE_MAX_B = 4_000_000
"""Largest spool of a job that is scored while its user waits: 20 000 lines, half a second."""
SUGGESTED_FROM_S = 120.0
"""Shorter jobs end without a suggestion, which takes 0.1 s of a processor."""
ZONE_HINT = (
    "no grid zone is set, so the world's mean is used and this is not an SCI: set GRAMWATT_ZONE=DE"
)
SERVER_COUNTS = " (scored here; the server's score counts)"
STORE_COUNTS = " (scored from its journal alone; the store's score counts)"
LIMITS = {"meter-synthetic": "by a synthetic meter", "zone-unknown": "at the world's mean grid"}
"""What limits a score most, in the words of the line, by the code of the notice."""


def job_document(job_id: str, config: Config, where: str | LocalStore | None) -> Document | None:
    """Return the document of an ended job.

    `where` is the address of its server, or the store, which have its journals (`send.sync`); None
    for the journals of this machine. None is returned while the job runs, or where it has no score
    there. Raises NotTaken for a server that does not show it, a GramwattError for a store that
    cannot be used, and OSError without a home.
    """
    if isinstance(where, str):
        return _of_server(job_id, config, where)
    if where is not None:
        return _of_store(job_id, config.home, where)
    folders = spool.folders(config.home, job_id)
    if not folders or any(folder.is_live() for folder in folders):
        return None
    scored = scored_here(folders, config)
    return _as_json(scored[1]) if scored else None


def _of_server(job_id: str, config: Config, server: str) -> Document | None:
    """Return the document as the server scores it; None when it has none or is away."""
    from gramwatt.collectors.settings.http import Unanswered, exchange, new_session
    from gramwatt.collectors.spool.send import REFUSED, NotTaken

    url, headers = f"{server}/v1/jobs/{job_id}/report", {"Accept": "application/json"}
    try:
        with new_session(config.key_for(server)) as session:
            answer = exchange(session, "GET", url, SERVER_LIMIT_S, headers=headers)
    except Unanswered:
        return None
    if answer.status in (401, 403):
        text = f"{plain_address(server)} does not show the score to this key ({answer.status})"
        raise NotTaken(REFUSED, f"{text}; one of scope read may see it")
    return answer.document() if answer.ok else None


def _of_store(job_id: str, home: Path, store: LocalStore) -> Document | None:
    """Return the document as the store has it, also if another process is giving it the journal."""
    deadline = time.monotonic() + STORED_WAIT_S
    while True:
        if document := store.document(home, job_id):
            return document
        if spool.folders(home, job_id) or time.monotonic() > deadline:
            return None
        time.sleep(STORED_POLL_S)


def scored_here(folders: Sequence[SpoolFolder], config: Config) -> tuple[MergedJob, JobDoc] | None:
    """Return a job up to now and its document, from its folders; None where they make no score.

    With the annual intensity.
    """
    from gramwatt.collectors.settings.catalogs import user_catalog
    from gramwatt.sci.figures.errors import GramwattError
    from gramwatt.sci.records.merge import merge
    from gramwatt.sci.records.records import readable
    from gramwatt.sci.score.identify import annual_context
    from gramwatt.sci.score.score import score

    lines = chain.from_iterable(folder.lines() for folder in folders)
    try:
        context = annual_context(user_catalog(config), config.lifetime_years)
        job = merge(readable(lines))  # the store reports what it refuses
        return job, score(job, context)
    except GramwattError:
        return None


def preload_engine() -> None:
    """Import the engine that `lines` needs, 0.1 s and 6 MB, while there is time for it."""
    import gramwatt.collectors.settings.catalogs
    import gramwatt.sci.score.score  # noqa: F401


# Of a job that runs


def document_so_far(job_id: str, config: Config) -> Document | None:
    """Return the document of a running job up to now; None where it does not run, or has no score.

    It knows what is journaled in this home: all ranks of this machine, other nodes where they share
    it. Nothing is closed, moved or stored.
    """
    folders = spool.folders(config.home, job_id)
    if not any(folder.is_live() for folder in folders):
        return None
    _have_saved(folders, time.monotonic() + SAVED_TIMEOUT_S)
    scored = scored_here(folders, config)
    return _as_json(scored[1]) if scored else None


def _as_json(document: JobDoc) -> Document:
    """Return a document in the form in which servers and other releases send theirs."""
    data: Document = to_builtins(document)
    return data


class Requests:
    """Requests for the figures so far of the job whose lines are in this folder."""

    def __init__(self, folder: Path) -> None:
        self._path = os.fspath(folder / REQUEST)
        self._seen = _changed_ns(self._path)

    def is_new(self) -> bool:
        """Say whether figures have been asked for since the last call."""
        before, self._seen = self._seen, _changed_ns(self._path)
        return self._seen != before


def _have_saved(folders: Sequence[SpoolFolder], deadline: float) -> None:
    """Have the living meters save what they know; wait until `deadline` [s] (monotonic)."""
    waiting = {
        path: _changed_ns(path)
        for folder in folders
        for path in (file.path.with_suffix(".open") for file in folder.writers() if file.live)
    }
    for folder in folders:
        try:
            (folder.path / REQUEST).touch(mode=0o600)
            for state in folder.live_states(but=""):
                JobFolder(str(state.get("memory"))).wake()  # else it looks every 10 s
        except OSError:  # another user's, or a full disk: what is journaled already has to do
            return
    while waiting and time.monotonic() < deadline:
        time.sleep(SAVED_POLL_S)
        waiting = {path: ns for path, ns in waiting.items() if _changed_ns(path) == ns}


def _changed_ns(path: str | Path) -> int:
    """Return when a file was changed last, in Unix time [ns]; 0 where there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


# At its end


class Ended(NamedTuple):
    """A job that this process or its client has closed.

    `home` is where it was journaled, `unwritten` why the journal is not whole, "" where it is.
    """

    job_id: str
    config: Config
    home: Path
    unwritten: str = ""


def report_location(ended: Ended) -> str:
    """Return where the job's figures and report are."""
    config, job_id = ended.config, ended.job_id
    if config.server:
        return f"{plain_address(config.server)}/jobs/{job_id}"
    if not has_service():
        return str(spool.spool_root(ended.home) / job_id)
    if ended.home != config.home:  # a store there would be lost with the temporary directory
        return f"`gramwatt job {job_id}`, once {spool.spool_root(config.home)} can be written"
    return f"`gramwatt job {job_id}`"


def _more(ended: Ended, document: Document) -> str:
    """Return where there is more, by the word `last` where the job is the newest for certain.

    Of a long job, or beside others in the spool, another may have started later.
    """
    see = report_location(ended)
    short = float(document.get("duration_s") or LAST_MOST_S) < LAST_MOST_S
    newest = all(folder.job_id <= ended.job_id for folder in spool.folders(ended.home))
    is_last = short and newest and ended.home == ended.config.home
    return see.replace(f"job {ended.job_id}", "job last") if is_last else see


def lines(ended: Ended, document: Document | None = None) -> list[str]:
    """Return what the user reads about the job; empty where it runs elsewhere still.

    `document` is the score of its server or its store, where that is known.
    """
    see = report_location(ended)
    if ended.unwritten:
        return [unwritten_text(ended.job_id, ended.unwritten)]
    folders = spool.folders(ended.home, ended.job_id)
    if any(map(_runs, folders)):
        return []
    if document is not None:
        return [result_line(document, _more(ended, document)), *_remedies(ended, document)]
    if not folders or sum(folder.size_b() for folder in folders) > SIZE_MAX_B:
        return [f"{ended.job_id} has ended; see {see}"]
    scored = scored_here(folders, ended.config)
    if scored is None:
        return [f"{ended.job_id} makes no score; see {see}"]
    document = _as_json(scored[1])
    line = result_line(document, _more(ended, document), _remark(ended))
    return [line, *_suggestion(scored[1], ended.config), *_remedies(ended, document)]


def _suggestion(document: JobDoc, config: Config) -> list[str]:
    """Return what would help most, of a job on accelerators that took as long as is worth it."""
    from gramwatt.sci.records.records import ACCELERATORS

    accelerated = any(device.device_class in ACCELERATORS for device in document.devices)
    if not accelerated or (document.duration_s or 0.0) < SUGGESTED_FROM_S:
        return []
    from gramwatt.collectors.settings.catalogs import user_catalog
    from gramwatt.sci.figures.formatting import plain
    from gramwatt.sci.suggest.jobs import advised, for_job

    answer = for_job(document, user_catalog(config))
    return [plain(f"{answer.summary} More: gramwatt suggest")] if advised(answer) else []


def _remark(ended: Ended) -> str:
    """Return what scores the job with more than is known here; empty where nothing does."""
    if ended.config.server:
        return SERVER_COUNTS
    store = local_store()
    return STORE_COUNTS if store and store.knows_more(ended.config.home, ended.job_id) else ""


def _runs(folder: SpoolFolder) -> bool:
    """Tell whether a meter of the job has not ended; a folder of another node is live for long."""
    if not folder.is_live():
        return False
    return bool(folder.unclosed()) or any(w.live and not w.ended for w in folder.writers())


def _remedies(ended: Ended, document: Document) -> list[str]:
    """Return what the user can do for better figures, each once a day."""
    config, home, texts = ended.config, ended.home, list[str]()
    codes = {notice["code"] for notice in document["notices"]}
    if "zone-unknown" in codes and not (config.zone or config.region):
        here = f"; for this job: gramwatt job {ended.job_id} --set zone=DE"
        if first_notice_today(home, ZONE_HINT):
            texts.append(ZONE_HINT + (here if has_service() and not config.server else ""))
    if not (config.server or has_service()):
        waits = f"journals wait in {spool.spool_root(home)}"
        how = f"set GRAMWATT_SERVER, or score them here after `{install_command('service')}`"
        texts += [f"{waits}: {how}"] if first_notice_today(home, waits) else []
    return texts


def result_line(document: Document, see: str, remark: str = "") -> str:
    """Return a job document in one line for a terminal; `see` says where there is more."""
    from gramwatt.sci.figures import formatting
    from gramwatt.sci.figures.quantity import figure_of

    state, duration_s = document["state"], document.get("duration_s")
    ended = ""
    if state != "completed":
        after = "" if duration_s is None else f" after {formatting.duration(float(duration_s))}"
        ended = f"{state}{after}: "
    energy = figure_of(document, "energy_kwh")
    parts = [
        f"{formatting.value_text(energy) if energy else f'energy {formatting.UNKNOWN}'}, "
        f"{_carbon(document)}",
        *_per_unit(document),
    ]
    grade = str((document.get("data_quality") or {}).get("grade"))
    codes = {notice.get("code") for notice in document.get("notices") or ()}
    limits = [text for code, text in LIMITS.items() if code in codes]
    parts.append(", ".join([formatting.GRADE_WORDS.get(grade, "quality not known"), *limits]))
    return formatting.plain(f"{ended}{'; '.join(parts)}{remark}. More: {see}")


def _carbon(document: Document) -> str:
    """Return the carbon of a job; where a term of it is not known, the other, and which lacks."""
    from gramwatt.sci.figures import formatting
    from gramwatt.sci.figures.quantity import figure_of

    terms = ("total_g", "operational_g", "embodied_g")
    total, operational, embodied = (figure_of(document, name) for name in terms)
    if total is not None:
        return formatting.text(total)
    if operational is not None:
        return f"{formatting.text(operational)} from electricity (hardware not counted)"
    if embodied is not None:
        return f"{formatting.text(embodied)} from hardware (electricity not counted)"
    return f"carbon {formatting.UNKNOWN}"


def _per_unit(document: Document) -> list[str]:
    """Return carbon by unit of work; where no unit was counted, the carbon of the job."""
    from gramwatt.sci.figures import formatting
    from gramwatt.sci.figures.quantity import figure_of

    rows = [row for row in document.get("sci") or () if row["unit"] != "job"]
    scores = [(row["unit"], figure) for row in rows if (figure := figure_of(row, "g_per_unit"))]
    if not scores:
        return []
    unit, figure = scores[0]
    value, _, _ = formatting.value_text(figure).partition("\u00a0CO2e")
    more = f" and {len(scores) - 1} more" if len(scores) > 1 else ""
    return [f"{value} per {unit}{more}"]
