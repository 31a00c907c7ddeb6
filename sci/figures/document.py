"""The shapes of the product's JSON documents, as structs.

The engine writes them, the store keeps them, the service answers with them and the reports read
them. An unknown figure is None, never 0. docs/api.md describes the fields.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity

Term = Literal["energy_kwh", "operational_g", "embodied_g"]
"""The terms of a job whose inputs its document keeps."""
Quality = Literal["measured", "hourly", "estimated", "forecast", "profile", "annual", "world"]
"""How a point is known, best first: published or derived from what was generated; imported by the
user; filled in by a model; foreseen; typical for the hour; the mean of a year, or of the world."""
Tier = Literal["A", "B", "C", "D"]
"""A: first-party study; B: independent study; C: model with known inputs; D: with assumed ones."""


class SciDoc(Struct):
    """One functional unit: its count R in the job and the score C / R."""

    unit: str
    count: float
    g_per_unit: Quantity | None


class DeviceDoc(Struct):
    """One device of the job: the share of it that was reserved, its energy [J] and embodied share
    [gCO2e], its meter, the joules by kind, and in `profile` its telemetry by the names of
    records/records.py.
    """

    device_id: str
    node: str
    device_class: str = field(name="class")
    name: str
    hardware: str | None
    share: float
    energy_j: Quantity | None
    embodied_g: Quantity | None
    meter: str
    kinds: dict[str, float]
    mean_utilisation: float | None
    peak_memory_b: float | None
    max_power_w: float | None
    profile: dict[str, float]


class QualityDoc(Struct):
    """Shares (0 to 1) of each term by how it is known, and the grade for them, A (best) to D."""

    grade: str
    energy: dict[str, float]
    intensity: dict[str, float]
    embodied: dict[str, float]


class SeriesPoint(Struct):
    """Energy [J] of one device class over [start, end), with its intensity [gCO2e/kWh] and the mean
    utilisation (0 to 1) of its devices that report one.
    """

    start: str
    end: str
    device_class: str = field(name="class")
    energy_j: float
    kind: str
    intensity_g_per_kwh: float | None
    utilisation: float | None


class DayDoc(Struct):
    """One UTC day of a job, for sums over jobs: its terms and R, each divided by time.

    The days add up to the job; without units it is one `job` over its days.
    """

    day: str
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    counts: dict[str, float]


class WindowDoc(Struct):
    """A named window over [start, end): its energy [J], and its energy per unit counted in it.

    `energy_j` and the terms of the carbon [gCO2e] are None where the window is too short for the
    meter (`below_resolution`) or where the energy of a device is not known.
    """

    name: str
    start: str
    end: str
    energy_j: Quantity | None
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    total_g: Quantity | None
    below_resolution: bool
    counts: dict[str, float]
    energy_j_per_unit: dict[str, Quantity | None]


class ServicePartDoc(Struct):
    """A part of a service's energy: `prefill`, `decode`, `work` (not split) or `idle`."""

    part: str
    energy_j: Quantity | None
    total_g: Quantity | None
    tokens: float
    energy_j_per_token: Quantity | None


class ServiceRowDoc(Struct):
    """How a service worked over [start, end), a `day` of the zone for which months are made or not.

    `closed` says that nothing is added to it any more. The energies of `parts` add up to
    `energy_j`. `known_s` is how long the server's counters are known [s], `cached_tokens` are
    prompt tokens that it did not compute, in no unit of `counts`.
    """

    day: str | None
    start: str
    end: str
    closed: bool
    energy_j: Quantity | None
    total_g: Quantity | None
    counts: dict[str, float]
    cached_tokens: float
    known_s: float
    parts: list[ServicePartDoc]
    energy_j_per_unit: dict[str, Quantity | None]
    total_g_per_unit: dict[str, Quantity | None]


class ServiceDoc(Struct):
    """A service in all, by day, and by hour for its last two days."""

    total: ServiceRowDoc
    days: list[ServiceRowDoc]
    hours: list[ServiceRowDoc]


class EmbodiedTermDoc(Struct):
    """M = TE x TiR/EL x RR/ToR of one device or host of a job; a host has its own id."""

    device_id: str
    node: str
    label: str
    te_g: Quantity
    tier: str
    stages: str
    time_reserved_s: float
    lifetime_years: float
    resources_reserved: float
    resources_total: float
    embodied_g: Quantity


class DeviceStepsDoc(Struct):
    """Energy [J] and energy-weighted intensity [gCO2e/kWh] of a device by step, and its PUE."""

    device_id: str
    node: str
    pue: float
    energy_j: list[float]
    intensity_g_per_kwh: list[float]


class StepsDoc(Struct):
    """The terms of the operational sum, by steps between `edges`, with the reserved time [s]."""

    edges: list[str]
    reserved_s: list[float]
    devices: list[DeviceStepsDoc]


class IntensityUsedDoc(Struct):
    """Intensity of one zone, quality and source over [start, end), as the score used it.

    `series` names publisher and method, the same for all editions. `points` is how many,
    `energy_j` what was joined with them, `g_per_kwh` their mean by that.
    """

    zone: str
    start: str
    end: str
    quality: str
    points: int
    energy_j: float
    g_per_kwh: float
    series: str
    source: str


class SourceDoc(Struct):
    """An input of the score: what it is, and the figure with its range and source."""

    what: str
    figure: Quantity


class InputDoc(SourceDoc):
    """An input of a job's score: `name` has no `count`, which is how many equal ones there are.

    `symbol` is that of the formula: E, I, PUE, TE, RR/ToR, EL or TiR; `of` the device, zone or
    nodes that it belongs to, None for the whole job. `ids` are the inputs by which ranges know it,
    none where it is exact.
    """

    name: str
    symbol: str
    of: str | None
    count: int
    ids: list[str]


class ConversionDoc(Struct):
    """A declared factor: 1 `unit` is `factor` of `to`; `counted` [unit] were converted."""

    unit: str
    to: str
    factor: float
    source: str
    date: str
    counted: float


class AiDoc(Struct):
    """What SCI for AI requires beside R: persona, names of the units, rationale and values."""

    persona: str | None
    named_units: dict[str, str | None]
    unit_rationale: str | None
    unit_values: str | None
    tokeniser: str | None
    statement: str


class SensitivityDoc(Struct):
    """M, C [gCO2e] and C per R for another lifetime of all hardware of the job [years]."""

    lifetime_years: float
    embodied_g: float
    total_g: float | None
    g_per_unit: dict[str, float | None]


class ScoredByDoc(Struct):
    """Method, versions, boundary and place of a score, or of a month's scores together.

    `time_zone` is that of the days; `supply` has the `supplies` in one text.
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
    supplies: list[str]
    zones: list[str]
    time_zone: str


class ExclusionDoc(Struct):
    """A component outside the boundary, with the reason; None where the job states none."""

    component: str
    reason: str | None


class MethodDoc(ScoredByDoc):
    """Method and inputs of the score of a job: what is needed to repeat it.

    `exclusions` are those of `boundary_excluded`.
    """

    exclusions: list[ExclusionDoc]
    conversions: list[ConversionDoc]
    sci_for_ai: AiDoc
    lifetime_years: Quantity
    pue: Quantity
    intensity_g_per_kwh: Quantity
    largest_uncertainty: str | None
    inputs: list[InputDoc]
    meter_cpu_s: float | None
    meter_rss_b: float | None
    meter_energy_j: Quantity | None


class CorrectionDoc(Struct):
    """What a person declared after the job: the field, its value and what stood before.

    A value of None makes the field undeclared; that of `excluded` is the reason.
    """

    field: str
    value: str | int | float | list[str] | None
    old: str | int | float | list[str] | None
    kind: str
    by: str
    at: str
    reason: str | None


class JobHead(Struct):
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
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    total_g: Quantity | None
    sci: list[SciDoc]
    conformance: str
    deviations: list[str]
    tags: dict[str, str]
    excluded: str | None


class JobDoc(JobHead):
    """The complete document of a job.

    `energy_kwh`, `operational_g` and `embodied_g`, and `intensity_g_per_kwh` and `pue` of the
    method, have their `effects` by inputs, so that sums and comparisons of jobs count an input that
    they share once. `service` is None for a job whose work no server counted.
    """

    devices: list[DeviceDoc]
    data_quality: QualityDoc
    notices: list[Notice]
    method: MethodDoc
    series: list[SeriesPoint]
    steps: StepsDoc
    intensity: list[IntensityUsedDoc]
    embodied_terms: list[EmbodiedTermDoc]
    lifetime_sensitivity: list[SensitivityDoc]
    windows: list[WindowDoc]
    days: list[DayDoc]
    service: ServiceDoc | None
    model_id: str | None
    framework: str | None
    precision: str | None
    corrections: list[CorrectionDoc]


class IntensityPointDoc(Struct):
    """Mean intensity over [start, end), and how it is known."""

    start: str
    end: str
    quality: str
    intensity_g_per_kwh: Quantity


class IntensitySeriesDoc(Struct):
    """A series that is stored for a zone, and whether scores and plans use it."""

    signal: str
    basis: str
    provider: str
    used: bool


class IntensityDoc(Struct):
    """Intensity of a zone over a span, in order of time.

    The points of the signal and basis that scores use cover it without a gap; of others there are
    those that are stored. `forecast` is what plans expect of the span's hours from now on, by a
    forecast or what is usual for the hour; empty where nothing is known but the annual value.
    `forecast_method` is how its first hour is known, as in a plan; null where it is empty.
    `timezone` is the zone's name in the IANA database, null where it spans several. `stored` are
    all series with values in the span.
    """

    zone: str
    timezone: str | None
    signal: str
    basis: str
    points: list[IntensityPointDoc]
    forecast: list[IntensityPointDoc]
    forecast_method: str | None
    stored: list[IntensitySeriesDoc]
    notices: list[Notice]
