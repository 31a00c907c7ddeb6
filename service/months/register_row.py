"""The register of a month: a row for each job, by which a figure is found from the sum down."""

from __future__ import annotations

from urllib.parse import urlencode

from gramwatt.sci.analysis.breakdown import boundary_of
from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.analysis.trail import RegisterRow
from gramwatt.sci.base.document import JobDoc, JobHead


def register_row(job: JobDoc, month: str) -> RegisterRow:
    """Return the row of a job: its part of the month (YYYY-MM), by which score, and links.

    Nothing that people wrote but the project is in it, so that it may stay when a job is deleted.
    """
    whole = all(day["day"].startswith(month) for day in job["days"])
    part = None if whole else months_of(job).get(month)
    figures: JobHead = job if part is None else part.head()
    name, revision = job["job_id"], job["revision"]
    of = urlencode({"project": job["project"]})
    method = job["method"]
    return {
        "job_id": name,
        "project": job["project"],
        "state": job["state"],
        "started_at": job["started_at"],
        "ended_at": job["ended_at"],
        "zone": job["zone"],
        "place": boundary_of(job),
        "score_revision": revision,
        "energy_kwh": figures["energy_kwh"],
        "pue": method["pue"],
        "factor_g_per_kwh": method["intensity_g_per_kwh"],
        "operational_g": figures["operational_g"],
        "embodied_g": figures["embodied_g"],
        "total_g": figures["total_g"],
        "counted": job["excluded"] is None,
        "corrections": len(job["corrections"]),
        "links": {
            "job": f"/v1/jobs/{name}/report?revision={revision}&{of}",
            "journal": f"/v1/jobs/{name}/intervals?{of}",
            "revisions": f"/v1/jobs/{name}/revisions?{of}",
        },
    }
