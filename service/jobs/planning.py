"""Plans, also for another run like a stored job."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.units import h_from_s
from gramwatt.sci.grid.zones import zone_taken
from gramwatt.sci.records.records import parse_time
from gramwatt.service.common.errors import DeletedJobError, UnknownJobError

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc
    from gramwatt.sci.planning.plan import PlanDoc
    from gramwatt.sci.planning.plan_request import PlanRequest
    from gramwatt.service.container import Service

PARTS = 48
"""Of equal length, into which the power of an earlier run is cut."""


def plan(service: Service, request: PlanRequest) -> PlanDoc:
    """Answer a request; raises LookupFailed for an unknown zone, ScoreError for what cannot be."""
    from gramwatt.service.intensity import plans  # loads numpy

    answer = plans.plan(service, _like(service, request))
    names = dict.fromkeys(filter(None, (request.zone, *request.zones)))
    taken = [notice for name in names for notice in zone_taken(name, service.catalog.zone(name))]
    return msgspec.structs.replace(answer, notices=[*taken, *answer.notices])


def _like(service: Service, request: PlanRequest) -> PlanRequest:
    """Return the request with the length and the power of the run that it names."""
    if not request.like:
        return request
    from gramwatt.service.jobs.documents import job_document  # a plan without a job starts sooner

    try:
        document = job_document(service, request.like).document
    except (UnknownJobError, DeletedJobError) as error:
        raise ScoreError(f"like: {error}", code="unknown-job") from None
    hours, power_w = _run(document)
    if not power_w:
        raise ScoreError(f"like: no energy of {request.like} is known", code="no-energy")
    return msgspec.structs.replace(
        request, hours=request.hours or hours, power_profile_w=power_w, like=None
    )


def _run(document: JobDoc) -> tuple[float, tuple[float, ...]]:
    """Return a job's length [h] and the mean power [W] of its equal parts, all devices together.

    Time without a reading counts as time without power; no part where no energy is known.
    """
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in document.series:
        sums[row.start, row.end] += row.energy_j
    spans = [
        (parse_time(start), parse_time(end), joules)
        for (start, end), joules in sorted(sums.items())
        if joules > 0
    ]
    if not spans:
        return 0.0, ()
    begin, edges_s, used_j = spans[0][0], [0.0], [0.0]
    for start, end, joules in spans:
        since_s = (start - begin).total_seconds()
        if since_s > edges_s[-1]:
            edges_s.append(since_s)
            used_j.append(used_j[-1])
        edges_s.append(edges_s[-1] + (end - start).total_seconds())
        used_j.append(used_j[-1] + joules)
    import numpy as np

    at_s = np.linspace(0.0, edges_s[-1], PARTS + 1)
    power_w = np.diff(np.interp(at_s, edges_s, used_j)) / np.diff(at_s)
    return h_from_s(edges_s[-1]), tuple(power_w.tolist())
