"""Ids as people type and read them: whole, a prefix that only one job has, or `last`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from os.path import commonprefix

import sqlalchemy as sa

from gramwatt.service.common.errors import AmbiguousIdError
from gramwatt.service.container import Service
from gramwatt.service.store.models import Deletion, Job

LAST = "last"
SHORTEST = len("20260501-083000")
"""Characters of a shortened id: an id that gramwatt made is then its start, to the second."""
CHOICES_MOST = 10


def whole_id(service: Service, text: str) -> str:
    """Return the id that a person means: an id itself, the newest job for `last`, or the one it
    begins.

    A text that fits no job comes back as it is. Raises AmbiguousIdError for a prefix of several.
    """
    with service.store.read() as session:
        for table in (Job, Deletion):
            if session.scalar(sa.select(table.job_id).where(table.job_id == text).limit(1)):
                return text
        if text == LAST:
            newest = sa.select(Job.job_id).order_by(Job.started_us.desc(), Job.id.desc()).limit(1)
            return session.scalar(newest) or text
        begun = sa.select(Job.job_id).where(Job.job_id.startswith(text, autoescape=True))
        # SQLite's LIKE does not tell upper from lower case.
        found = list({job_id for job_id in session.scalars(begun) if job_id.startswith(text)})
    if len(found) > 1:
        raise AmbiguousIdError(text, len(found), sorted(found)[-CHOICES_MOST:][::-1])
    return found[0] if found and text else text


def short_ids(service: Service, job_ids: Iterable[str]) -> dict[str, str]:
    """Return each id's shortest prefix that no other job has, of at least SHORTEST characters."""
    wanted = set(job_ids)
    starts = {job_id[:SHORTEST] for job_id in wanted}
    near = sa.select(Job.job_id).where(sa.func.substr(Job.job_id, 1, SHORTEST).in_(starts))
    with service.store.read() as session:
        known = sorted(wanted.union(session.scalars(near)))
    lengths = dict.fromkeys(known, SHORTEST)
    for one, other in pairwise(known):
        unique = len(commonprefix([one, other])) + 1
        lengths[one] = max(lengths[one], unique)
        lengths[other] = max(lengths[other], unique)
    return {job_id: job_id[: lengths[job_id]] for job_id in wanted}
