"""The shapes of the product's JSON documents (design section 9), as typed dictionaries.

The engine writes them, the store keeps them, the service answers with them and the reports read
them. `Q` below is a `QuantityDoc`; an unknown figure is None, never 0.
"""

from __future__ import annotations

from typing import TypedDict

from gramwatt.sci.base.notices import NoticeDoc
from gramwatt.sci.base.quantity import QuantityDoc


class SciDoc(TypedDict):
    """One functional unit: its count in this job and the score."""

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
"""One device of the job: share of it reserved, energy [J] and embodied share [g], meter, the joules
by kind, and how it ran, by the names of profile.py as far as they are known. (Functional syntax,
because "class" is a keyword.)"""


class QualityDoc(TypedDict):
    """Shares (0 to 1) by how things are known, and the grade made of them (A best, D worst)."""

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
    },
)
"""Energy [J] of one device class over [start, end), with the intensity joined to it."""


class DayDoc(TypedDict):
    """One UTC day of a job, for roll-ups: value, low and high of each term, and units counted."""

    day: str
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    counts: dict[str, float]


class WindowDoc(TypedDict):
    """A named window over [start, end): its energy [J], and that per unit counted in it.

    `energy_j` is None where the window is too short for the counter (`below_resolution`) or where
    the energy of a device is not known.
    """

    name: str
    start: str
    end: str
    energy_j: QuantityDoc | None
    below_resolution: bool
    counts: dict[str, float]
    energy_j_per_unit: dict[str, QuantityDoc | None]


class EmbodiedTermDoc(TypedDict):
    """One M = TE x TiR/EL x RR/ToR of a job: a device's, or a host's under an id of its own."""

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
    """Energy [J] of one device in each step, with the energy-weighted intensity joined to it."""

    device_id: str
    energy_j: list[float]
    intensity_g_per_kwh: list[float]


class StepsDoc(TypedDict):
    """The operational sum as it was made: steps between `edges`, reserved time [s] in each."""

    edges: list[str]
    reserved_s: list[float]
    devices: list[DeviceStepsDoc]


class SourceDoc(TypedDict):
    """Where one input figure comes from: what it is, its value with range, and its origin."""

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
    """What SCI for AI asks to be said of R: for whom, under which name, why, and which values."""

    persona: str | None
    named_units: dict[str, str | None]
    unit_rationale: str | None
    unit_values: str | None
    tokeniser: str | None
    statement: str


class SensitivityDoc(TypedDict):
    """M, C [gCO2e] and C per R if all hardware of the job lived so many years."""

    lifetime_years: float
    embodied_g: float
    total_g: float | None
    g_per_unit: dict[str, float | None]


class MemoDoc(TypedDict):
    """What a supply contract says, beside the score: never a part of it."""

    contract_g_per_kwh: QuantityDoc
    contract_g: QuantityDoc | None
    note: str


class MethodDoc(TypedDict):
    """Everything a reader needs to defend or repeat the score."""

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


class JobHead(TypedDict):
    """What a list of jobs shows."""

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


class JobDoc(JobHead):
    """The whole job document."""

    devices: list[DeviceDoc]
    data_quality: QualityDoc
    notices: list[NoticeDoc]
    method: MethodDoc
    series: list[SeriesPoint]
    steps: StepsDoc
    embodied_terms: list[EmbodiedTermDoc]
    lifetime_sensitivity: list[SensitivityDoc]
    memo: MemoDoc | None
    windows: list[WindowDoc]
    days: list[DayDoc]
    tags: dict[str, str]
    model_id: str | None
    framework: str | None
    precision: str | None


class MonthTotals(TypedDict):
    """Sums over a month; None where a term of any job is unknown (see `jobs_unknown`)."""

    jobs: int
    jobs_unknown: int
    energy_kwh: QuantityDoc | None
    operational_g: QuantityDoc | None
    embodied_g: QuantityDoc | None
    total_g: QuantityDoc | None


class ProjectRow(TypedDict):
    """One project and functional unit of the SCI table: sum(C) / sum(R)."""

    project: str
    unit: str
    jobs: int
    count: float
    energy_kwh: QuantityDoc | None
    total_g: QuantityDoc | None
    g_per_unit: QuantityDoc | None
    conformance: str


class ModelRow(TypedDict):
    """One model's runs in a month, by who they work for; `unfinished` failed, were killed, lost."""

    model_id: str
    persona: str
    jobs: int
    unfinished: int
    energy_kwh: QuantityDoc | None
    total_g: QuantityDoc | None


class ModelPartDoc(TypedDict):
    """All runs of a model that make it (provider), use it (consumer), or do neither (other)."""

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
    """A model over all its runs; `missing` says why the sums may not be the whole of it."""

    model_id: str
    jobs: int
    parts: list[ModelPartDoc]
    complete: bool
    missing: list[str]


class SavingDoc(TypedDict):
    """The best certain saving of one job: what to do, on which target, and why.

    `saved_g` [gCO2e] and `carbon_ratio` (new over present) are of the whole job.
    """

    job_id: str
    name: str
    project: str
    action: str
    target: str | None
    saved_g: QuantityDoc
    carbon_ratio: QuantityDoc | None
    reason: str


class MonthDoc(TypedDict):
    """The monthly report's data: totals, last month's totals, tables and sources."""

    month: str
    project: str | None
    complete: bool
    totals: MonthTotals
    previous: MonthTotals | None
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
    method: MethodDoc | None
    sources: list[str]
