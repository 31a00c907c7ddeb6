"""The shapes of the product's JSON documents, as typed dictionaries.

The engine writes them, the store keeps them, the service answers with them and the reports read
them. An unknown figure is None, never 0. docs/api.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypedDict

from gramwatt.sci.base.month_rows import (
    AdviceRow,
    BoundaryDoc,
    BudgetUse,
    ChangeDoc,
    ChargeRow,
    ComponentRow,
    FollowedRow,
    LedgerRow,
    MarketDoc,
    ModelRow,
    ProjectCharge,
    RevisedDoc,
    SavingDoc,
    StatementDoc,
    TrendRow,
    WorkRow,
)
from gramwatt.sci.base.notices import NoticeDoc
from gramwatt.sci.base.propagation import UncertaintyDoc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc

Term = Literal["energy_kwh", "operational_g", "embodied_g"]
"""The terms of a job whose uncertainty its document keeps by inputs."""


def plain(record: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a dataclass as JSON-ready data: tuples as lists, quantities as documents."""
    doc: dict[str, Any] = {}
    for name in (spec.name for spec in fields(record) if spec.name not in skip):
        value = getattr(record, name)
        if isinstance(value, Quantity):
            value = value.to_doc()
        doc[name] = list(value) if isinstance(value, tuple) else value
    return doc


class SciDoc(TypedDict):
    """One functional unit: its count R in the job and the score C / R."""

    unit: str
    count: float
    g_per_unit: QuantityDoc | None


DeviceDoc = TypedDict(
    "DeviceDoc",
    {
        "device_id": str,
        "node": str,
        "class": str,
        "name": str,
        "hardware": str | None,
        "share": float,
        "energy_j": QuantityDoc | None,
        "embodied_g": QuantityDoc | None,
        "meter": str,
        "kinds": dict[str, float],
        "mean_utilisation": float | None,
        "peak_memory_b": float | None,
        "max_power_w": float | None,
        "profile": dict[str, float],
    },
)
"""One device of the job: the share of it that was reserved, its energy [J] and embodied share
[gCO2e], its meter, the joules by kind, and in `profile` its telemetry by the names of
journal/telemetry.py. (Functional syntax, because "class" is a keyword.)"""


class QualityDoc(TypedDict):
    """Shares (0 to 1) of each term by how it is known, and the grade for them, A (best) to D."""

    grade: str
    energy: dict[str, float]
    intensity: dict[str, float]
    embodied: dict[str, float]


SeriesPoint = TypedDict(
    "SeriesPoint",
    {
        "start": str,
        "end": str,
        "class": str,
        "energy_j": float,
        "kind": str,
        "intensity_g_per_kwh": float | None,
        "utilisation": float | None,
    },
)
"""Energy [J] of one device class over [start, end), with its intensity [gCO2e/kWh] and the mean
utilisation (0 to 1) of its devices that report one."""


class DayDoc(TypedDict):
    """One UTC day of a job, for sums over jobs: its terms and R, each divided by time.

    The days add up to the job; without units it is one `job` over its days.
    """

    day: str
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    counts: dict[str, float]


class WindowDoc(TypedDict):
    """A named window over [start, end): its energy [J], and its energy per unit counted in it.

    `energy_j` and the terms of the carbon [gCO2e] are None where the window is too short for the
    meter (`below_resolution`) or where the energy of a device is not known.
    """

    name: str
    start: str
    end: str
    energy_j: QuantityDoc | None
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    total_g: QuantityDoc | None
    below_resolution: bool
    counts: dict[str, float]
    energy_j_per_unit: dict[str, QuantityDoc | None]


class EmbodiedTermDoc(TypedDict):
    """M = TE x TiR/EL x RR/ToR of one device or host of a job; a host has its own id."""

    device_id: str
    node: str
    label: str
    te_g: QuantityDoc
    tier: str
    stages: str
    time_reserved_s: float
    lifetime_years: float
    resources_reserved: float
    resources_total: float
    embodied_g: QuantityDoc


class DeviceStepsDoc(TypedDict):
    """Energy [J] and energy-weighted intensity [gCO2e/kWh] of a device by step, and its PUE."""

    device_id: str
    node: str
    pue: float
    energy_j: list[float]
    intensity_g_per_kwh: list[float]


class StepsDoc(TypedDict):
    """The terms of the operational sum, by steps between `edges`, with the reserved time [s]."""

    edges: list[str]
    reserved_s: list[float]
    devices: list[DeviceStepsDoc]


class IntensityUsedDoc(TypedDict):
    """Intensity of one zone, quality and source over [start, end), as the score used it.

    `points` is how many, `energy_j` what was joined with them, `g_per_kwh` their mean by that.
    """

    zone: str
    start: str
    end: str
    quality: str
    points: int
    energy_j: float
    g_per_kwh: float
    source: str


class SourceDoc(TypedDict):
    """An input of the score: what it is, and the figure with its range and source."""

    what: str
    figure: QuantityDoc


class ConversionDoc(TypedDict):
    """A declared factor: 1 `unit` is `factor` of `to`; `counted` [unit] were converted."""

    unit: str
    to: str
    factor: float
    source: str
    date: str
    counted: float


class AiDoc(TypedDict):
    """What SCI for AI requires beside R: persona, names of the units, rationale and values."""

    persona: str | None
    named_units: dict[str, str | None]
    unit_rationale: str | None
    unit_values: str | None
    tokeniser: str | None
    statement: str


class SensitivityDoc(TypedDict):
    """M, C [gCO2e] and C per R for another lifetime of all hardware of the job [years]."""

    lifetime_years: float
    embodied_g: float
    total_g: float | None
    g_per_unit: dict[str, float | None]


class MemoDoc(TypedDict):
    """Market-based figures of a supply contract, reported beside the score, never part of it."""

    contract_g_per_kwh: QuantityDoc
    contract_g: QuantityDoc | None
    note: str


class _DaysDoc(TypedDict, total=False):
    time_zone: str


class MethodDoc(_DaysDoc):
    """Method, versions, boundary and inputs of the score: what is needed to repeat it.

    `time_zone` is that of the days, where it is not UTC.
    """

    standard: str
    formula: str
    engine_version: str
    catalog_version: str
    boundary_included: list[str]
    boundary_excluded: list[str]
    intensity_signal: str
    intensity_basis: str
    intensity_approach: str
    supply: str
    zones: list[str]
    conversions: list[ConversionDoc]
    sci_for_ai: AiDoc
    lifetime_years: QuantityDoc
    pue: QuantityDoc
    intensity_g_per_kwh: QuantityDoc
    largest_uncertainty: str | None
    inputs: list[SourceDoc]
    meter_cpu_s: float | None
    meter_rss_b: float | None
    meter_energy_j: QuantityDoc | None


class CorrectionDoc(TypedDict):
    """What a person declared after the job: the field, its value and what stood before.

    A value of None makes the field undeclared; that of `excluded` is the reason.
    """

    field: str
    value: str | float | list[str] | None
    old: str | float | list[str] | None
    kind: str
    by: str
    at: str
    reason: str | None


class JobHead(TypedDict):
    """The summary of a job, as in lists of jobs; `excluded` is why months leave it out."""

    job_id: str
    name: str
    project: str
    kind: str
    state: str
    exit_code: int | None
    started_at: str
    ended_at: str | None
    duration_s: float | None
    zone: str | None
    region: str | None
    revision: int
    provisional: bool
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    total_g: QuantityDoc | None
    sci: list[SciDoc]
    conformance: str
    deviations: list[str]
    tags: dict[str, str]
    excluded: str | None


class JobDoc(JobHead):
    """The complete document of a job.

    `uncertainty` has what moves `energy_kwh`, `operational_g` and `embodied_g`, by inputs, so that
    sums and comparisons of jobs count an input that they share once.
    """

    devices: list[DeviceDoc]
    data_quality: QualityDoc
    notices: list[NoticeDoc]
    method: MethodDoc
    series: list[SeriesPoint]
    steps: StepsDoc
    intensity: list[IntensityUsedDoc]
    embodied_terms: list[EmbodiedTermDoc]
    lifetime_sensitivity: list[SensitivityDoc]
    memo: MemoDoc | None
    windows: list[WindowDoc]
    days: list[DayDoc]
    uncertainty: dict[str, UncertaintyDoc]
    model_id: str | None
    framework: str | None
    precision: str | None
    corrections: list[CorrectionDoc]


class MonthTotals(TypedDict):
    """Sums over the parts of jobs in a month, of the terms that are known; None where none is.

    `jobs` have any part in the month, `jobs_ended` their last; `jobs_unknown` have a term that is
    not known.
    """

    jobs: int
    jobs_ended: int
    jobs_unknown: int
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    total_g: QuantityDoc | None


class ProjectRow(TypedDict):
    """sum(C) / sum(R) of one project and functional unit."""

    project: str
    unit: str
    jobs: int
    count: float
    energy_kwh: QuantityDoc | None
    total_g: QuantityDoc | None
    g_per_unit: QuantityDoc | None
    conformance: str


class ModelPartDoc(TypedDict):
    """All jobs of a model of one persona: provider (makes it), consumer (uses it) or other."""

    persona: str
    jobs: int
    jobs_unknown: int
    states: dict[str, int]
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    total_g: QuantityDoc | None
    by_kind: dict[str, QuantityDoc | None]
    sci: list[SciDoc]
    conformance: str


class ModelDoc(TypedDict):
    """All jobs of a model; `missing` lists why the sums may be incomplete."""

    model_id: str
    jobs: int
    parts: list[ModelPartDoc]
    complete: bool
    missing: list[str]


class PendingJobRow(TypedDict):
    """A job that no sum of the month holds yet, and its energy so far in the month [kWh]."""

    job_id: str
    name: str
    project: str
    energy_kwh: QuantityDoc | None


class PendingDoc(TypedDict):
    """Jobs that no sum of the month holds yet, and their energy so far in the month [kWh].

    `named` are those with the most.
    """

    jobs: int
    energy_kwh: QuantityDoc | None
    named: list[PendingJobRow]


class ExcludedDoc(TypedDict):
    """A job that a person left out of the month, and why."""

    job_id: str
    name: str
    project: str
    reason: str


class MonthDoc(TypedDict):
    """The data of a monthly report: totals, those of the previous month, tables and sources.

    `changes` are the terms of the totals over those of the previous month, each with the range of
    that ratio, in which what both months share cancels.

    It is `complete` once the month is over and no job of it runs or lacks a score; it is then kept,
    and has a `revision`, which late lines and new scores raise. The figures and R of `top_jobs` are
    of their part in the month. `components`, `ledger`, `chargeback` and `by_project` sum to the
    totals, in which `provisional` are the jobs whose grid intensity is not final; None where an
    earlier release did not say. `examined_jobs` are those that `advice` and `suggestions` come
    from.
    """

    month: str
    project: str | None
    revision: int | None
    revised: RevisedDoc | None
    complete: bool
    jobs_running: PendingDoc
    jobs_unscored: PendingDoc
    provisional: MonthTotals | None
    totals: MonthTotals
    previous: MonthTotals | None
    changes: dict[str, QuantityDoc | None]
    change_parts: ChangeDoc | None
    trend: list[TrendRow]
    budgets: list[BudgetUse]
    components: list[ComponentRow]
    boundary: BoundaryDoc | None
    market_based: MarketDoc | None
    ledger: list[LedgerRow]
    idle_not_seen_kwh: QuantityDoc | None
    chargeback: list[ChargeRow]
    by_project: list[ProjectCharge]
    work: list[WorkRow]
    advice: list[AdviceRow]
    examined_jobs: int
    followed: list[FollowedRow]
    projects: list[ProjectRow]
    models: list[ModelRow]
    top_jobs: list[JobHead]
    suggestions: list[SavingDoc]
    days: list[DayDoc]
    data_quality: QualityDoc
    conformance: dict[str, int]
    states: dict[str, int]
    by_state: dict[str, MonthTotals]
    notices: list[NoticeDoc]
    notice_counts: dict[str, int]
    excluded: list[ExcludedDoc]
    deleted: int
    method: MethodDoc | None
    methods: list[list[str]]
    sources: list[str]
    statement: StatementDoc


def figure(job: JobHead, term: Term) -> Quantity | None:
    """A term of a job, with its uncertainty by inputs; None where it is not known."""
    found = job[term]
    if found is None:
        return None
    known: Mapping[str, UncertaintyDoc] = job.get("uncertainty", {})  # type: ignore[assignment]
    return Quantity.from_doc(found, known.get(term))


def doc(figure: Quantity | None) -> QuantityDoc | None:
    """Return the figure as JSON-ready data; None for an unknown one."""
    return figure.to_doc() if figure else None
