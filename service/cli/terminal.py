"""Jobs as text on a terminal."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from textwrap import TextWrapper, wrap

from gramwatt.sci.figures.document import CorrectionDoc, JobDoc, ServiceDoc, WindowDoc
from gramwatt.sci.figures.formatting import (
    UNKNOWN,
    count_text,
    duration,
    minute_text,
    plain,
    prefix,
    span_text,
    text,
    value_text,
)
from gramwatt.sci.figures.printable import clean
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import s_from_h
from gramwatt.sci.month.compare import ScoreChangeDoc
from gramwatt.sci.month.documents import ModelDoc
from gramwatt.sci.month.repeated import RunsComparisonDoc, RunsDoc
from gramwatt.sci.records.records import parse_time

WINDOWS_SHOWN = 20
ALIKE = (("a lamp of 10 W", 0.01, 1.0), ("an oven of 2 kW", 2.0, math.inf))
"""What energy is compared with: its power [kW], and up to which energy [kWh]."""
IN_REMARKS = ("pue-undeclared",)
"""Notices that are among the remarks of a score."""


def job_lines(document: JobDoc) -> list[str]:
    """Return one job as text: its carbon in a sentence, then figures, what the score stands on,
    windows and notices.
    """
    from gramwatt.reports.sections import STATUS

    started = minute_text(document.started_at)
    rows = [
        ("Energy", _with_range(document.energy_kwh)),
        *_as_much_as(document.energy_kwh),
        ("Electricity", _with_range(document.operational_g)),
        ("Making the hardware", _with_range(document.embodied_g)),
        ("Total", _with_range(document.total_g)),
    ]
    for row in document.sci:
        figure = f"{text(row.g_per_unit)}, R = {count_text(row.count)}"
        rows.append((f"SCI per {row.unit}", figure))
    rows += _service(document.service)
    place = document.zone or document.region or "unknown: world average intensity"
    rows.append(("Place", place))
    rows.append(("Started", f"{started} UTC, {duration(document.duration_s)}"))
    rows.append(("State", _state(document)))
    rows.append(("Data quality", f"{document.data_quality.grade} (A best, D worst)"))
    rows.append(("Conformance", "; ".join([STATUS[document.conformance], *document.deviations])))
    rows.append(("Job", f"{document.job_id} (project {document.project})"))
    tags = ", ".join(f"{key}={value}" for key, value in sorted(document.tags.items()))
    rows += [("Tags", tags)] if tags else []
    rows += [("Declared", _correction(row)) for row in document.corrections]
    rows += _windows(document.windows)
    repeated = IN_REMARKS if document.deviations else ()
    notices = (notice for notice in document.notices if notice.code not in repeated)
    rows += [("Notice", f"{notice.message} [{notice.code}]") for notice in notices]
    head = " ".join([*_warnings(document), _sentence(document)])
    lines = [*wrap(plain(clean(head)), _columns()), "", *_aligned(rows)]
    if document.zone is None:
        lines.append(f"Where did it run? gramwatt job {document.job_id} --set zone=DE")
    return lines


def _as_much_as(energy_kwh: Quantity | None) -> list[tuple[str, str]]:
    """Return what uses as much energy, and how long it takes; nothing below a second."""
    if energy_kwh is None:
        return []
    name, power_kw, _ = next(row for row in ALIKE if energy_kwh.value < row[2])
    seconds = s_from_h(energy_kwh.value / power_kw)
    return [("As much as", f"{name} in {duration(seconds)}")] if seconds >= 1.0 else []


def _sentence(document: JobDoc) -> str:
    """Return what a job emitted, or the part of it that is known and what is missing."""
    total, electricity = document.total_g, document.operational_g
    if total is not None:
        carbon = text(total)
    elif electricity is not None:
        carbon = f"{text(electricity)} for electricity; making the hardware not known"
    else:
        carbon = "carbon not known"
    energy = f"{value_text(document.energy_kwh)}, " if document.energy_kwh else ""
    ended = f"{document.state} after {duration(document.duration_s)}"
    if document.state == "running":
        ended = f"running since {minute_text(document.started_at)[11:]} UTC, so far"
    return f"{document.name}: {energy}{carbon}; {ended}."


def _service(service: ServiceDoc | None) -> list[tuple[str, str]]:
    """Return what the energy of a service was for; nothing of a job that is none."""
    from gramwatt.reports.job_sections import kwh

    return [
        (f"For {part.part}", f"{text(kwh(part.energy_j))}, {text(part.total_g)}")
        for part in (service.total.parts if service else ())
    ]


def _correction(row: CorrectionDoc) -> str:
    from gramwatt.reports.job_sections import value_of

    reason = f" ({row.reason})" if row.reason and row.field != "excluded" else ""
    change = f"{value_of(row, 'value')}, was {value_of(row, 'old')}"
    return f"{row.field} {change}; {row.by}, {minute_text(row.at)} UTC{reason}"


def _windows(windows: Sequence[WindowDoc]) -> list[tuple[str, str]]:
    """Return the last windows, each with its length, energy and energy per unit."""
    rows = [("Window", _window(window)) for window in windows[-WINDOWS_SHOWN:]]
    left = len(windows) - len(rows)
    return [*([("Windows", f"{left} earlier ones: --json")] if left else []), *rows]


def _window(window: WindowDoc) -> str:
    length_s = (parse_time(window.end) - parse_time(window.start)).total_seconds()
    figures = "too short to measure" if window.below_resolution else text(window.energy_kwh)
    more = [window.total_g, *window.energy_j_per_unit.values()]
    parts = [value_text(figure) for figure in more if figure]
    return ", ".join([window.name, duration(length_s), figures, *parts])


def model_lines(model: ModelDoc) -> list[str]:
    """Return all runs of a model: each part's sums and scores, and why they may not be the
    whole.
    """
    rows = [("Model", f"{model.model_id}, {model.jobs} runs")]
    for part in model.parts:
        states = ", ".join(f"{count} {state}" for state, count in sorted(part.states.items()))
        rows += [
            (f"As {part.persona}", f"{part.jobs} runs ({states}), {part.conformance}"),
            ("  Energy", _with_range(part.energy_kwh)),
            ("  Total O + M", _with_range(part.total_g)),
        ]
        rows += [(f"    of {kind}", _with_range(part.by_kind[kind])) for kind in part.by_kind]
        for row in part.sci:
            figure = f"{value_text(row.g_per_unit)}, R = {count_text(row.count)}"
            rows.append((f"  SCI per {row.unit}", figure))
    rows += [("Missing", why) for why in model.missing]
    return _aligned(rows)


def runs_lines(comparison: RunsComparisonDoc) -> list[str]:
    """Runs of two sides: the verdict in words, each side, the ratio, and what moved."""
    unit = comparison.unit
    rows = [
        *_runs_rows("Before", comparison.before, unit),
        *_runs_rows("After", comparison.after, unit),
        ("Ratio", _with_range(comparison.ratio)),
        *_by_hour(comparison),
    ]
    if comparison.repetition_ratio is not None:
        rows.append(("  measurement", span_text(comparison.measurement_ratio) or "exact"))
        rows.append(("  repetition", span_text(comparison.repetition_ratio) or "exact"))
    effects = {"Change": comparison.change_g_per_unit} | {
        f"  by {term}": effect for term, effect in comparison.effects_g_per_unit.items() if effect
    }
    rows += [(name, _signed(effect, unit)) for name, effect in effects.items()]
    return [*wrap(clean(plain(comparison.text)), _columns()), *_aligned(rows)]


def _signed(change_g: float, unit: str) -> str:
    """Return a change of carbon per unit with its sign: "-1.1 µg CO2e/image"."""
    size, name = prefix(change_g, f"gCO2e/{unit}")
    return f"{change_g / size:+.3g} {name}"


def _by_hour(comparison: ScoreChangeDoc) -> list[tuple[str, str]]:
    """Return what is known of the ratio of carbon, where it is less than that of the rest."""
    by_hour = comparison.ratio_by_hour
    return [] if by_hour is None else [("  by hour", span_text(by_hour))]


def _runs_rows(name: str, side: RunsDoc, unit: str) -> list[tuple[str, str]]:
    runs = side.runs
    what = f"job {runs[0].job_id}"
    if len(runs) > 1:
        what = f"{len(runs)} runs, {side.scatter or 0:.1%} apart (standard deviation)"
    figure = f"{text(side.g_per_unit)}, R = {count_text(side.count)} {unit}"
    return [(name, figure), ("", what)]


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    names = max(len(name) for name, _ in rows)
    lines = [plain(f"{name:<{names}}  {clean(value)}") for name, value in rows]
    return _wrapped(lines, names + 2)


def indented(text: str) -> list[str]:
    """Return a text in lines of the terminal, what is too long for one further in."""
    return _wrapped(text.split("\n"), 4)


def _wrapped(lines: Sequence[str], indent: int) -> list[str]:
    """Return lines as wide as the terminal, the rest of a longer one below it, so far in."""
    whole = TextWrapper(
        _columns(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return [part for line in lines for part in (whole.wrap(line) or [""])]


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _warnings(document: JobDoc) -> list[str]:
    excluded = document.excluded
    left_out = [] if excluded is None else [f"Left out of months: {excluded}."]
    synthetic = any(notice.code == "meter-synthetic" for notice in document.notices)
    warning = "Readings come from a synthetic meter: this is not an SCI score."
    return [*left_out, *([warning] if synthetic else [])]


def _state(document: JobDoc) -> str:
    code = document.exit_code
    ended = f", exit code {code}" if code is not None else ""
    status = "provisional" if document.provisional else "final"
    return f"{document.state}{ended}, revision {document.revision}, {status}"


def _with_range(figure: Quantity | None) -> str:
    if figure is None:
        return UNKNOWN
    exact = "" if span_text(figure) else ", exact"
    return f"{text(figure)}{exact}, {figure.kind}"
