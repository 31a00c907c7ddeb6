"""Jobs as text on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.sci.analysis.compare import ComparisonDoc
from gramwatt.sci.base.document import JobDoc, JobHead, ModelDoc
from gramwatt.sci.base.formatting import (
    UNKNOWN,
    count_text,
    duration,
    minute_text,
    plain,
    span_text,
    value_text,
)
from gramwatt.sci.base.quantity import QuantityDoc

WIDEST = 10_000
NAME_WIDTH = len("20261121-063422-1a488435592c")


def jobs_table(heads: Sequence[JobHead]) -> None:
    """Print a table of jobs, or one line when there is none."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not heads:
        print("No job yet. Run one under the meter: gramwatt run -- python train.py")
        return
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    # An id is there to be copied and a figure to be read: they do not break.
    table.add_column("Job", no_wrap=True)
    table.add_column("State, start", no_wrap=True)
    table.add_column("Energy, CO2e", justify="right", no_wrap=True)
    table.add_column("SCI", justify="right", no_wrap=True)
    for head in heads:
        table.add_row(
            f"{head['job_id']}\n[dim]{escape(_short(head))}[/dim]",
            f"{head['state']}\n[dim]{minute_text(head['started_at'])}[/dim]",
            plain(f"{value_text(head['energy_kwh'])}\n{value_text(head['total_g'])}"),
            plain("\n".join(value_text(row["g_per_unit"]) for row in head["sci"])),
        )
    # Otherwise the measure would stop at the console's width.
    unbounded = console.options.update_width(WIDEST)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table)
        return
    for head in heads:
        print("\n".join(_narrow(head)))


def _short(head: JobHead) -> str:
    """Name and project, no wider than the ids that gramwatt gives."""
    text = f"{head['name']}, {head['project']}"
    return text if len(text) <= NAME_WIDTH else text[: NAME_WIDTH - 1] + "…"


def _narrow(head: JobHead) -> list[str]:
    """One job below the other, where a terminal is too narrow for the table."""
    scores = [row["g_per_unit"] for row in head["sci"]]
    return [
        head["job_id"],
        f"  {head['name']}, {head['project']}",
        f"  {head['state']}, {minute_text(head['started_at'])} UTC",
        *(
            f"  {plain(value_text(figure))}"
            for figure in (head["energy_kwh"], head["total_g"], *scores)
        ),
    ]


def job_lines(document: JobDoc) -> list[str]:
    """One job in about a dozen lines."""
    place = document["zone"] or document["region"] or "unknown: world average intensity"
    started = minute_text(document["started_at"])
    rows = [
        *_warnings(document),
        ("Job", f"{document['job_id']}  ({document['name']}, project {document['project']})"),
        ("State", _state(document)),
        ("Started", f"{started} UTC, {duration(document['duration_s'])}"),
        ("Zone", place),
        ("Energy", _with_range(document["energy_kwh"])),
        ("Operational O", _with_range(document["operational_g"])),
        ("Embodied M", _with_range(document["embodied_g"])),
        ("Total O + M", _with_range(document["total_g"])),
    ]
    for row in document["sci"]:
        span = span_text(row["g_per_unit"])
        span = f"  ({span})" if span else ""
        figure = f"{value_text(row['g_per_unit'])}{span}, R = {count_text(row['count'])}"
        rows.append((f"SCI per {row['unit']}", figure))
    rows.append(("Data quality", document["data_quality"]["grade"]))
    rows.append(("Conformance", "; ".join([document["conformance"], *document["deviations"]])))
    rows += [("Notice", f"{n['code']}: {n['message']}") for n in document["notices"]]
    return _aligned(rows)


def model_lines(model: ModelDoc) -> list[str]:
    """All runs of a model: each part's sums and scores, and why they may not be the whole."""
    rows = [("Model", f"{model['model_id']}, {model['jobs']} runs")]
    for part in model["parts"]:
        states = ", ".join(f"{count} {state}" for state, count in sorted(part["states"].items()))
        rows += [
            (f"As {part['persona']}", f"{part['jobs']} runs ({states}), {part['conformance']}"),
            ("  Energy", _with_range(part["energy_kwh"])),
            ("  Total O + M", _with_range(part["total_g"])),
        ]
        rows += [(f"    of {kind}", _with_range(part["by_kind"][kind])) for kind in part["by_kind"]]
        for row in part["sci"]:
            figure = f"{value_text(row['g_per_unit'])}, R = {count_text(row['count'])}"
            rows.append((f"  SCI per {row['unit']}", figure))
    rows += [("Missing", text) for text in model["missing"]]
    return _aligned(rows)


def comparison_lines(found: ComparisonDoc) -> list[str]:
    """Two scores side by side: the ratio, the verdict, and the effect of each term."""
    unit, per = found["unit"], f"gCO2e/{found['unit']}"
    sides = {"Before": found["before"], "After": found["after"]}
    rows = [
        (
            name,
            f"{value_text(side['g_per_unit'])}  ({span_text(side['g_per_unit']) or 'exact'}), "
            f"R = {count_text(side['count'])} {unit}, job {side['job_id']}",
        )
        for name, side in sides.items()
    ]
    rows.append(("Ratio", _with_range(found["ratio"])))
    rows.append(("Verdict", found["verdict"]))
    rows.append(("Change", f"{found['change_g_per_unit']:+.3g} {per}"))
    rows += [
        (f"  by {term}", f"{effect + 0.0:+.3g} {per}")
        for term, effect in found["effects_g_per_unit"].items()
    ]
    rows.append(("What moved most", found["moved"] or "nothing"))
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [plain(f"{name:<{width}}  {text}") for name, text in rows]


def _warnings(document: JobDoc) -> list[tuple[str, str]]:
    synthetic = any(notice["code"] == "meter-synthetic" for notice in document["notices"])
    warning = "readings come from a synthetic or replayed meter: this is not an SCI score"
    return [("Warning", warning)] if synthetic else []


def _state(document: JobDoc) -> str:
    code = document["exit_code"]
    ended = f", exit code {code}" if code is not None else ""
    provisional = ", provisional" if document["provisional"] else ""
    return f"{document['state']}{ended}, revision {document['revision']}{provisional}"


def _with_range(figure: QuantityDoc | None) -> str:
    if figure is None:
        return UNKNOWN
    span = span_text(figure) or "exact"
    return f"{value_text(figure)}  ({span}, {figure['kind']})"
