"""Jobs as people type and read them: an id, what they or Slurm call a job, a name, or `last`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from os.path import commonprefix

import sqlalchemy as sa

from gramwatt.collectors.settings.identity import LAST as LAST
from gramwatt.collectors.settings.identity import NAMES
from gramwatt.collectors.settings.identity import RUNS as RUNS
from gramwatt.service.common.errors import AmbiguousIdError
from gramwatt.service.container import Service
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import Deletion, Job, JobLabel

SHORTEST = len("20260501-083000")
"""Characters of a shortened id: an id that gramwatt made is then its start, to the second."""
CHOICES_MOST = 10


def whole_id(service: Service, text: str) -> str:
    """Return the id that a person means, the newest where a name has several runs.

    See `run_ids`.
    """
    return run_ids(service, text, 1)[0]


def run_ids(service: Service, text: str, most: int = RUNS) -> list[str]:
    """Return the ids that a person means: an id itself, the newest job for `last`, the job that has
    the text as its tag of NAMES, the newest completed runs of that name, `most` at most, or the
    job whose id it begins.

    A text that fits no job comes back as it is. Raises AmbiguousIdError for one that fits several.
    """
    with service.store.read() as session:
        for table in (Job, Deletion):
            if session.scalar(sa.select(table.job_id).where(table.job_id == text).limit(1)):
                return [text]
        newest = sa.select(Job.job_id).order_by(Job.started_us.desc(), Job.id.desc())
        if text == LAST:
            return [session.scalar(newest.limit(1)) or text]
        labels = [label_text(TAG, f"{name}:{text}") for name in NAMES]
        called = sa.select(Job.job_id).join(JobLabel, JobLabel.job == Job.id)
        fitting = set(session.scalars(called.where(JobLabel.label.in_(labels))))
        runs = newest.where(Job.name == text, Job.state == "completed").limit(most)
        if not fitting and (named := list(session.scalars(runs))):
            return named
        if not fitting and text:
            begun = sa.select(Job.job_id).where(Job.job_id.startswith(text, autoescape=True))
            # SQLite's LIKE does not tell upper from lower case.
            fitting = {job_id for job_id in session.scalars(begun) if job_id.startswith(text)}
    if len(fitting) > 1:
        raise AmbiguousIdError(text, len(fitting), sorted(fitting)[-CHOICES_MOST:][::-1])
    return [*fitting] or [text]


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
