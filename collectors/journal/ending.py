"""The end of a job for its user: one line with its figures, and what would make them better.

Made from the spool when everything is journaled and no lock is held any more, so that neither a
database nor a server is waited for. Of a job id that was used before, what has been stored already
is not in it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gramwatt.collectors.client.messages import unwritten_text
from gramwatt.collectors.common.config import Config, plain_address
from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.installation import has_service, install_command
from gramwatt.collectors.journal import spool

if TYPE_CHECKING:
    from gramwatt.sci.base.document import JobDoc

SIZE_MAX_B = 4_000_000
"""Largest spool of a job that is scored while its user waits: 20 000 lines, half a second."""
ZONE_HINT = (
    "no grid zone is set, so the world average is used and the score is no SCI: set GRAMWATT_ZONE, "
    "such as DE or US-CAL-CISO"
)


class Ended(NamedTuple):
    """A job that this process or its client has closed.

    `home` is where it was journaled, `unwritten` why the journal is not whole, "" where it is.
    """

    job_id: str
    config: Config
    home: Path
    unwritten: str = ""


def prepare() -> None:
    """Load the engine that `lines` needs, 0.1 s and 6 MB, while there is time for it."""
    import gramwatt.collectors.journal.result  # noqa: F401


def see(ended: Ended) -> str:
    """Where the job's figures and report are."""
    config, job_id = ended.config, ended.job_id
    if config.server:
        return f"{plain_address(config.server)}/jobs/{job_id}"
    if not has_service():
        return str(spool.spool_root(ended.home) / job_id)
    elsewhere = ended.home != config.home
    home = f"GRAMWATT_HOME={shlex.quote(str(ended.home))} " if elsewhere else ""
    return f"`{home}gramwatt job {job_id}`"


def lines(ended: Ended) -> list[str]:
    """What the user reads about the job; empty where it runs elsewhere still."""
    if ended.unwritten:
        return [unwritten_text(ended.job_id, ended.unwritten)]
    folders = spool.folders(ended.home, ended.job_id)
    if any(map(_runs, folders)):
        return []
    if not folders or sum(folder.size_b() for folder in folders) > SIZE_MAX_B:
        return [f"{ended.job_id} has ended; see {see(ended)}"]
    from gramwatt.collectors.journal.result import job_document, result_line

    document = job_document(folders, ended.config)
    if document is None:
        return [f"{ended.job_id} makes no score; see {see(ended)}"]
    return [result_line(document, see(ended)), *_remedies(ended, document)]


def runs_elsewhere(ended: Ended) -> bool:
    """Whether another process of the job is measured still; raises OSError."""
    return any(map(_runs, spool.folders(ended.home, ended.job_id)))


def _runs(folder: spool.SpoolFolder) -> bool:
    """Whether a meter of the job has not ended here; a folder of another node is live for long."""
    if not folder.is_live():
        return False
    return bool(folder.unclosed()) or any(w.live and not w.ended for w in folder.writers())


def _remedies(ended: Ended, document: JobDoc) -> list[str]:
    """What the user can do for better figures, each once a day."""
    config, home, found = ended.config, ended.home, list[str]()
    codes = {notice["code"] for notice in document["notices"]}
    if "zone-unknown" in codes and not (config.zone or config.region):
        here = f"; `gramwatt job {ended.job_id} --set zone=DE` corrects this job"
        if first_notice_today(home, ZONE_HINT):
            found.append(ZONE_HINT + (here if has_service() and not config.server else ""))
    if not (config.server or has_service()):
        waits = f"journals wait in {spool.spool_root(home)}"
        how = f"set GRAMWATT_SERVER, or score them here after `{install_command('service')}`"
        found += [f"{waits}: {how}"] if first_notice_today(home, waits) else []
    return found
