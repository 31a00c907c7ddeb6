"""Rows of a month's document: method, actions, changes by project, what a better grade lacks."""

from __future__ import annotations

from msgspec import Struct

from gramwatt.sci.figures.document import ScoredByDoc
from gramwatt.sci.figures.quantity import Quantity


class MonthMethodDoc(ScoredByDoc):
    """By what the jobs of a month are scored; PUE and intensity [gCO2e/kWh] are its means.

    PUE is weighted by energy, the intensity by the energy of the facility. Several versions,
    signals, bases or supplies are separated by "; "; the lifetime is null where jobs have several.
    """

    lifetime_years: Quantity | None
    pue: Quantity | None
    intensity_g_per_kwh: Quantity | None


class ProjectChange(Struct):
    """The total [gCO2e] of a project in the month and in the one before, and their ratio.

    None where the project has no job in the month, its total is not known, or it was nothing.
    """

    project: str
    total_g: Quantity | None
    previous_g: Quantity | None
    change: Quantity | None


class NamedJob(Struct):
    """A job by id, name and project."""

    job_id: str
    name: str
    project: str


class LackingJob(NamedJob):
    """A job, and the share (0 to 1) of the month's energy or M that lacks something for it."""

    share: float


class GradeLimit(Struct):
    """Why the month has no better grade: `needed` of a block must be of these kinds, `share` is.

    `jobs` are those that lack most.
    """

    grade: str
    block: str
    kinds: list[str]
    share: float
    needed: float
    jobs: list[LackingJob]


class AdviceRow(Struct):
    """An action for one class of work on one kind of hardware: jobs, and what it saves in a month.

    `basis` is `examined`: `jobs` were examined and gain, out of `jobs_of_work`; or
    `all`: a sum over all jobs of the work, such as of their idle time, or of runs that failed.
    `confidence` is `sure` (at least 9 in 10) or `likely` (at least 7 in 10). `named` are those that
    save most.
    """

    hardware: str
    work: str
    action: str
    target: str | None
    jobs: int
    jobs_of_work: int
    saved_g: Quantity
    carbon_ratio: Quantity | None
    confidence: str
    reason: str
    examples: list[str]
    named: list[NamedJob]
    basis: str


class FollowedRow(Struct):
    """What became of a suggestion of the month before.

    Jobs of that work on the hardware then and now, and on the target; `outcome` is `followed`,
    `partly`, `not-followed` or `no-such-work`, null for actions that leave no trace in the jobs.
    """

    hardware: str
    work: str
    action: str
    target: str | None
    jobs_before: int
    jobs_now: int
    target_before: int
    target_now: int
    outcome: str | None
