"""The end of a job for its user: its document, the line about it, and what would improve it.

Made from the spool when everything is journaled and no lock is held any more, by the engine that
scores in the store too and from the same lines. So neither a database nor a server is waited for
where they know no more of the job than its spool. The engine is imported when it is needed: it
takes 0.1 s and 8 MB.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gramwatt.collectors.common.config import Config, plain_address
from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.installation import has_service, install_command
from gramwatt.collectors.journal import spool
from gramwatt.collectors.tracking.messages import unwritten_text

if TYPE_CHECKING:
    from gramwatt.sci.base.document import JobDoc

SIZE_MAX_B = 4_000_000
"""Largest spool of a job that is scored while its user waits: 20 000 lines, half a second."""
ZONE_HINT = (
    "no grid zone is set, so the world average is used and the score is no SCI: set GRAMWATT_ZONE, "
    "such as DE or US-CAL-CISO"
)

SERVER_COUNTS = " (scored here; the server's score counts)"
STORE_COUNTS = " (scored from its journal alone; the store's score counts)"
NOT_SCI = {"meter-synthetic": "synthetic meter", "zone-unknown": "no grid zone"}
"""Why a score is no SCI, in the words of the line, by the code of the notice."""


class Ended(NamedTuple):
    """A job that this process or its client has closed.

    `home` is where it was journaled, `unwritten` why the journal is not whole, "" where it is.
    """

    job_id: str
    config: Config
    home: Path
    unwritten: str = ""


def preload_engine() -> None:
    """Import the engine that `lines` needs, 0.1 s and 6 MB, while there is time for it."""
    import gramwatt.collectors.common.catalogs
    import gramwatt.sci.score.score  # noqa: F401


def report_location(ended: Ended) -> str:
    """Return where the job's figures and report are."""
    config, job_id = ended.config, ended.job_id
    if config.server:
        return f"{plain_address(config.server)}/jobs/{job_id}"
    if not has_service():
        return str(spool.spool_root(ended.home) / job_id)
    elsewhere = ended.home != config.home
    home = f"GRAMWATT_HOME={shlex.quote(str(ended.home))} " if elsewhere else ""
    return f"`{home}gramwatt job {job_id}`"


def lines(ended: Ended, document: Mapping[str, Any] | None = None) -> list[str]:
    """Return what the user reads about the job; empty where it runs elsewhere still, or where
    another of its processes has been given it.

    `document` is the score of its server or its store, where that is known.
    """
    see = report_location(ended)
    if ended.unwritten:
        return [unwritten_text(ended.job_id, ended.unwritten)]
    folders = spool.folders(ended.home, ended.job_id)
    if any(map(_runs, folders)):
        return []
    writers = sorted(one.writer for folder in folders for one in folder.writers())
    told = f"{ended.job_id} ended: {writers}"
    if len(writers) > 1 and not first_notice_today(ended.home, told):
        return []  # another process of the job that ended at the same moment has
    if document is not None:
        return [result_line(document, see), *_remedies(ended, document)]
    if not folders or sum(folder.size_b() for folder in folders) > SIZE_MAX_B:
        return [f"{ended.job_id} has ended; see {see}"]
    document = job_document(folders, ended.config)
    if document is None:
        return [f"{ended.job_id} makes no score; see {see}"]
    return [result_line(document, see, _remark(ended)), *_remedies(ended, document)]


def _remark(ended: Ended) -> str:
    """Return what scores the job with more than is known here; empty where nothing does."""
    if ended.config.server:
        return SERVER_COUNTS
    if not has_service():
        return ""
    from gramwatt.collectors.common.local_store import knows_more

    return STORE_COUNTS if knows_more(ended.config.home, ended.job_id) else ""


def job_document(folders: Sequence[spool.SpoolFolder], config: Config) -> JobDoc | None:
    """Return the document of a job's spool folders; None when their lines make no score."""
    from gramwatt.collectors.common.catalogs import user_catalog
    from gramwatt.sci.base.errors import GramwattError
    from gramwatt.sci.journal.merge import merge
    from gramwatt.sci.journal.records import readable
    from gramwatt.sci.score.identify import annual_context
    from gramwatt.sci.score.score import score

    try:
        context = annual_context(user_catalog(config), config.lifetime_years)
        journal = chain.from_iterable(folder.lines() for folder in folders)
        return score(merge(readable(journal)), context)  # the store reports what it refuses
    except GramwattError:
        return None


def runs_elsewhere(ended: Ended) -> bool:
    """Tell whether another process of the job is measured still; raises OSError."""
    return any(map(_runs, spool.folders(ended.home, ended.job_id)))


def _runs(folder: spool.SpoolFolder) -> bool:
    """Tell whether a meter of the job has not ended; a folder of another node is live for long."""
    if not folder.is_live():
        return False
    return bool(folder.unclosed()) or any(w.live and not w.ended for w in folder.writers())


def _remedies(ended: Ended, document: Mapping[str, Any]) -> list[str]:
    """Return what the user can do for better figures, each once a day."""
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


def result_line(document: Mapping[str, Any], see: str, remark: str = "") -> str:
    """Return a job document in one line for a terminal; `see` says where there is more."""
    from gramwatt.sci.base import formatting

    parts = [] if document["state"] == "completed" else [_ended(document)]
    figure = document.get("energy_kwh")
    parts.append(formatting.text(figure) if figure else f"energy {formatting.UNKNOWN}")
    parts += _scores(document)
    grade = (document.get("data_quality") or {}).get("grade") or formatting.UNKNOWN
    return formatting.ascii_units(f"{', '.join(parts)}, grade {grade}{remark}; see {see}")


def _ended(document: Mapping[str, Any]) -> str:
    from gramwatt.sci.base import formatting

    duration_s = document.get("duration_s")
    after = "" if duration_s is None else f" after {formatting.duration(float(duration_s))}"
    return f"{document['state']}{after}"


def _scores(document: Mapping[str, Any]) -> list[str]:
    from gramwatt.sci.base import formatting

    codes = {notice.get("code") for notice in document.get("notices") or ()}
    known = [item["g_per_unit"] for item in document.get("sci") or () if item.get("g_per_unit")]
    others = f" and {len(known) - 1} more" if len(known) > 1 else ""
    first = [f"{formatting.text(known[0])}{others}"] if known else []
    if document.get("conformance") != "not-sci":
        return [f"SCI {text}" for text in first] or ["SCI not known"]
    why = next((f" ({text})" for code, text in NOT_SCI.items() if code in codes), "")
    return [*first, f"not an SCI{why}"]
