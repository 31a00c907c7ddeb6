"""What a job comes to when it ends: its document, made from the spool, and the line about it.

The same engine as the store's scores it, from the same lines, so that a job needs neither a
database nor a network for its last line, and does not wait for them. Imported at a job's end only:
the engine takes 0.1 s and 8 MB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from gramwatt.collectors.common.catalogs import user_catalog
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.journal.spool import SpoolFolder
from gramwatt.sci.base import formatting
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.journal.merge import merge
from gramwatt.sci.journal.records import readable
from gramwatt.sci.score.identify import annual_context
from gramwatt.sci.score.score import score

NOT_SCI = {"meter-synthetic": "synthetic meter", "zone-unknown": "no grid zone"}
"""Why a score is no SCI, in the words of the line, by the code of the notice."""


def job_document(folders: Sequence[SpoolFolder], config: Config) -> JobDoc | None:
    """The document of a job's spool folders; None when their lines make no score."""
    try:
        context = annual_context(user_catalog(config), config.lifetime_years)
        lines = chain.from_iterable(folder.lines() for folder in folders)
        return score(merge(readable(lines)), context)  # the store reports what it refuses
    except GramwattError:
        return None


def result_line(document: Mapping[str, Any], see: str) -> str:
    """A job document in one line for a terminal; `see` says where there is more."""
    parts = [] if document["state"] == "completed" else [_ended(document)]
    parts += [_energy(document), *_scores(document)]
    grade = (document.get("data_quality") or {}).get("grade") or formatting.UNKNOWN
    return formatting.ascii_units(f"{', '.join(parts)}, grade {grade}; see {see}")


def _ended(document: Mapping[str, Any]) -> str:
    duration_s = document.get("duration_s")
    after = "" if duration_s is None else f" after {formatting.duration(float(duration_s))}"
    return f"{document['state']}{after}"


def _energy(document: Mapping[str, Any]) -> str:
    figure = document.get("energy_kwh")
    return formatting.text(figure) if figure else f"energy {formatting.UNKNOWN}"


def _scores(document: Mapping[str, Any]) -> list[str]:
    codes = {notice.get("code") for notice in document.get("notices") or ()}
    items = document.get("sci") or ()
    known = [item["g_per_unit"] for item in items if item.get("g_per_unit")]
    if document.get("conformance") != "not-sci":
        return [f"SCI {formatting.text(known[0])}{_others(known)}"] if known else ["SCI not known"]
    why = next((f" ({text})" for code, text in NOT_SCI.items() if code in codes), "")
    carbon = [f"{formatting.text(known[0])}{_others(known)}"] if known else []
    return [*carbon, f"not an SCI{why}"]


def _others(known: Sequence[Any]) -> str:
    return f" and {len(known) - 1} more" if len(known) > 1 else ""
