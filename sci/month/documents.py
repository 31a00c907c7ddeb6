"""The shapes of a month's and a model's documents, as structs.

An unknown figure is None, never 0. docs/api.md describes the fields.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from gramwatt.sci.figures.document import QualityDoc, SciDoc, ScoredByDoc
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.revised import ChangeRow


class TermsDoc(Struct):
    """E [kWh], O, M and their total [gCO2e] of something; None where not known."""

    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    total_g: Quantity | None


TERMS = TermsDoc.__struct_fields__
"""E, O, M and C by name."""


class MonthTotals(TermsDoc):
    """Sums over the parts of jobs in a month, of the terms that are known; None where none is.

    `jobs` have any part in the month, `jobs_ended` their last; `jobs_unknown` have a term that is
    not known.
    """

    jobs: int
    jobs_ended: int
    jobs_unknown: int


class UnitRow(Struct):
    """sum(C) / sum(R) in one functional unit."""

    unit: str
    jobs: int
    count: float
    energy_kwh: Quantity | None
    total_g: Quantity | None
    g_per_unit: Quantity | None
    conformance: str


class ProjectRow(UnitRow):
    """sum(C) / sum(R) of one project and functional unit."""

    project: str


class ModelUnitRow(UnitRow):
    """sum(C) / sum(R) of one model and functional unit."""

    model_id: str


class ModelPartDoc(TermsDoc):
    """All jobs of a model of one persona: provider (makes it), consumer (uses it) or other."""

    persona: str
    jobs: int
    jobs_unknown: int
    states: dict[str, int]
    by_kind: dict[str, Quantity | None]
    sci: list[SciDoc]
    conformance: str


class ModelDoc(Struct):
    """All jobs of a model; `missing` lists why the sums may be incomplete."""

    model_id: str
    jobs: int
    parts: list[ModelPartDoc]
    complete: bool
    missing: list[str]


class PendingJobRow(Struct):
    """A job that no sum of the month holds yet, and its energy so far in the month [kWh]."""

    job_id: str
    name: str
    project: str
    energy_kwh: Quantity | None


class PendingDoc(Struct):
    """Jobs that no sum of the month holds yet, and their energy so far in the month [kWh].

    `named` are those with the most.
    """

    jobs: int
    energy_kwh: Quantity | None
    named: list[PendingJobRow]


class ExcludedDoc(Struct):
    """A job that a person left out of the month, and why."""

    job_id: str
    name: str
    project: str
    reason: str


class ChangeDoc(Struct):
    """The change of a month's carbon [gCO2e] against the month before, and what it is made of.

    The effects of the amount of work, of energy per unit, of grid and PUE, of embodied carbon per
    unit, and of another method sum to the change.
    """

    change_g: Quantity
    volume_g: Quantity
    efficiency_g: Quantity
    grid_g: Quantity
    hardware_g: Quantity
    method_g: Quantity


class TrendRow(TermsDoc):
    """One month of the trend.

    `methods` are the versions of engine and catalog, and signal and basis of the intensity, that
    its jobs are scored with; `method_break` says that they differ from those of the month before.
    """

    month: str
    complete: bool
    jobs: int
    grade: str
    methods: list[list[str]]
    method_break: bool


class ComponentRow(Struct):
    """A component of the month's O or M [gCO2e]: a class of device, or what PUE adds."""

    part: str
    component: str
    g: Quantity


class BoundaryDoc(Struct):
    """One month in two boundaries: the accelerators' electricity alone, and everything.

    The narrow one has neither PUE nor embodied carbon; `full_kwh` is the energy of the facility.
    """

    narrow_kwh: Quantity
    narrow_g: Quantity
    full_kwh: Quantity
    full_g: Quantity | None


class LedgerRow(Struct):
    """What one outcome of the work used: completed, idle, sweep, failed, killed or lost.

    `idle` are accelerators of completed jobs that had no work; its jobs count as completed.
    """

    outcome: str
    jobs: int
    energy_kwh: Quantity | None
    total_g: Quantity | None


class ChargeRow(TermsDoc):
    """What the jobs of a project and owner used; the owner is the tag `user`."""

    project: str
    owner: str | None
    jobs: int


class ProjectCharge(TermsDoc):
    """What all jobs of a project used: its rows of the chargeback, with what they share once."""

    project: str
    jobs: int


class WorkRow(Struct):
    """What one class of work used on one kind of hardware; `regions` counts its jobs in each."""

    hardware: str
    work: str
    jobs: int
    regions: dict[str, int]
    energy_kwh: Quantity | None
    total_g: Quantity | None


class MarketFactor(NamedTuple):
    """What the electricity bought in a zone emits by contract [gCO2e/kWh], and who states it."""

    g_per_kwh: float
    source: str


class MarketRow(Struct):
    """A memo: the month's energy in a zone [kWh], with PUE, at a market-based factor [gCO2e/kWh].

    The factor is a setting; it is in no score, no total and no comparison.
    """

    zone: str
    energy_kwh: Quantity
    factor_g_per_kwh: Quantity
    market_g: Quantity


BudgetStatus = Literal["within", "threshold-reached", "spent", "unknown"]


class BudgetUse(Struct):
    """How much of a project's budget [kgCO2e] the month used, its running jobs provisionally.

    `status` goes by the value, as that of the budget does; `range_holds_limit` says
    that the range leaves both open.
    """

    project: str
    limit_kg: float
    spent_kg: Quantity | None
    spent_share: float | None
    status: BudgetStatus
    range_holds_limit: bool


class StatementDoc(Struct):
    """Who answers for the report, as the service is set up; null where nobody is named."""

    organisation: str | None
    accountable: str | None
    contact: str | None


class RevisedDoc(Struct):
    """The revision of the report before this one: its total [gCO2e] and number of jobs.

    `changes` are the jobs that this one adds, no longer has, or has with another score, by cause.
    """

    revision: int
    jobs: int
    total_g: Quantity | None
    changes: list[ChangeRow]


class ModelRow(Struct):
    """One model's jobs in a month, by persona; `unfinished` failed, were killed or lost.

    `unfinished_g` is their part of `total_g`; null where there are none, or it is not known.
    `facility_kwh` is E times PUE.
    """

    model_id: str
    persona: str
    jobs: int
    unfinished: int
    energy_kwh: Quantity | None
    facility_kwh: Quantity | None
    total_g: Quantity | None
    unfinished_g: Quantity | None


class SavingDoc(Struct):
    """The suggestion that saves most for one job, of a class of work on one kind of hardware.

    `saved_g` [gCO2e] and `carbon_ratio` (new over present) are of the whole job. `verdict` is how
    sure it is (`sure` or `likely`), `basis` what the probability rests on.
    """

    job_id: str
    name: str
    project: str
    action: str
    target: str | None
    saved_g: Quantity
    carbon_ratio: Quantity | None
    verdict: str
    reason: str
    basis: str
    hardware: str
    work: str


class TopJob(TermsDoc):
    """One of the jobs with the most carbon: its part of the month, and how long all of it took."""

    job_id: str
    name: str
    project: str
    owner: str | None
    state: str
    duration_s: float | None


class MonthDay(Struct):
    """The terms of one day of a month; a range adds those of its jobs, as if they erred alike."""

    day: str
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None


class DeletedRow(Struct):
    """A deleted job of a month: what it had added [gCO2e], when, by whom and why it went."""

    job_id: str
    project: str
    total_g: Quantity | None
    deleted_at: str
    deleted_by: str
    reason: str | None


class FactorFileDoc(Struct):
    """A file of grid intensity that was imported: what it is, and who imported it when."""

    name: str
    sha256: str
    publisher: str | None
    licence: str | None
    link: str | None
    imported_by: str
    imported_at: str


class FactorRow(Struct):
    """An emission factor of the month: energy [kWh] x PUE x factor [gCO2e/kWh] = O [gCO2e].

    `quality` says how the factor is known, `source` names it; `series` is the key of its publisher
    and method, the same for all editions; `files` are those that an imported
    factor came in. Null stands for a publisher that is not known any more.
    """

    zone: str
    jobs: int
    energy_kwh: Quantity
    pue: Quantity
    factor_g_per_kwh: Quantity
    operational_g: Quantity
    quality: str
    series: str
    source: str
    publisher: str | None
    edition: str | None
    licence: str | None
    link: str | None
    files: list[FactorFileDoc]


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


class WorkDay(Struct):
    """R, E [kWh], O and M [gCO2e] of a kind of work on one day."""

    day: str
    amount: float
    energy_kwh: float
    operational_g: float
    embodied_g: float


class WorkSums(Struct):
    """What the change of a month needs of a kind of work: a project and its jobs' first unit.

    The figures have the effects of their inputs. `methods` are the versions, signal and basis of
    its scores, `intensities` zone, quality and series of each intensity in them.
    """

    project: str
    unit: str
    amount: float
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    methods: list[list[str]]
    intensities: list[list[str]]
    days: list[WorkDay]


class MonthSums(Struct):
    """The sums of a month's jobs: all of its document that no other month and no setting is in.

    `terms` and `by_project_g` have the effects of their inputs, for comparisons with other months.
    """

    month: str
    project: str | None
    totals: MonthTotals
    terms: TermsDoc
    by_project_g: dict[str, Quantity | None]
    by_work: list[WorkSums]
    jobs_by_day: dict[str, list[int]]
    provisional: MonthTotals
    components: list[ComponentRow]
    boundary: BoundaryDoc | None
    facility_kwh: Quantity | None
    factors: list[FactorRow]
    ledger: list[LedgerRow]
    idle_not_seen_kwh: Quantity | None
    chargeback: list[ChargeRow]
    by_project: list[ProjectCharge]
    work: list[WorkRow]
    waste: list[AdviceRow]
    projects: list[ProjectRow]
    model_units: list[ModelUnitRow]
    models: list[ModelRow]
    top_jobs: list[TopJob]
    days: list[MonthDay]
    data_quality: QualityDoc
    grade_limits: list[GradeLimit]
    conformance: dict[str, int]
    by_state: dict[str, MonthTotals]
    notice_counts: dict[str, int]
    excluded: list[ExcludedDoc]
    method: MonthMethodDoc | None
    methods: list[list[str]]
    intensity_methods: list[list[str]]
    sources: list[str]


class MonthAdvice(Struct):
    """What a store adds to the sums of a month: suggestions, and publishers of its factors.

    It comes of the documents of the largest jobs, of which there are `examined_jobs`.
    """

    advice: list[AdviceRow]
    suggestions: list[SavingDoc]
    examined_jobs: int
    factors: list[FactorRow]


class MonthDoc(Struct):
    """The data of a monthly report: totals, those of the previous month, tables and sources.

    Of a month in progress, its first `compared_days` days are compared with as many of the month
    before: `compared` are the totals of those, `previous` of these; null where both are whole.
    `changes` are the terms of the totals over those of the previous month, each with the range of
    that ratio, in which what both months share cancels.

    It is `complete` once the month is over and no job of it runs, lacks a score or is one of the
    `jobs_to_rescore`, which wait to be scored again with the engine, catalog, settings or intensity
    of now, those of the trend too; it is then kept, and has a `revision`, issued at `issued_at`,
    which late lines and new scores raise. The figures and R of `top_jobs` are of their part in the
    month. `components`, `ledger`, `chargeback` and `by_project` sum to the totals, `factors` to
    those of E and O; `provisional` are the jobs in them whose grid intensity is not final.
    `examined_jobs` are those that `advice` and
    `suggestions` come from.
    """

    month: str
    project: str | None
    revision: int | None
    issued_at: str | None
    revised: RevisedDoc | None
    complete: bool
    jobs_running: PendingDoc
    jobs_unscored: PendingDoc
    jobs_to_rescore: int
    provisional: MonthTotals
    totals: MonthTotals
    previous: MonthTotals | None
    compared_days: int | None
    compared: MonthTotals | None
    changes: dict[str, Quantity | None]
    change_parts: ChangeDoc | None
    project_changes: list[ProjectChange]
    trend: list[TrendRow]
    budgets: list[BudgetUse]
    components: list[ComponentRow]
    boundary: BoundaryDoc | None
    market_based: list[MarketRow]
    factors: list[FactorRow]
    ledger: list[LedgerRow]
    idle_not_seen_kwh: Quantity | None
    chargeback: list[ChargeRow]
    by_project: list[ProjectCharge]
    work: list[WorkRow]
    advice: list[AdviceRow]
    examined_jobs: int
    followed: list[FollowedRow]
    projects: list[ProjectRow]
    model_units: list[ModelUnitRow]
    models: list[ModelRow]
    top_jobs: list[TopJob]
    suggestions: list[SavingDoc]
    days: list[MonthDay]
    data_quality: QualityDoc
    grade_limits: list[GradeLimit]
    conformance: dict[str, int]
    by_state: dict[str, MonthTotals]
    notice_counts: dict[str, int]
    excluded: list[ExcludedDoc]
    deletions: list[DeletedRow]
    method: MonthMethodDoc | None
    sources: list[str]
    statement: StatementDoc
