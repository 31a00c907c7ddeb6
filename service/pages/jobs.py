"""The list of jobs, one job's report within the site's frame, and runs of two versions compared."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

from flask import Response, render_template, request
from markupsafe import Markup
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from gramwatt.reports.html import POLICY
from gramwatt.sci.figures.document import JobDoc, JobHead
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.formatting import GRADE_WORDS
from gramwatt.sci.figures.quantity import Quantity, total
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.month.repeated import RUNS_MOST, RunsComparisonDoc, compare_runs
from gramwatt.sci.records.records import ID_PATTERN, JOB_KINDS
from gramwatt.service.api.access import Access
from gramwatt.service.api.jobs import JobsQuery
from gramwatt.service.api.reports import ReportQuery, job_response
from gramwatt.service.api.routing import from_strings
from gramwatt.service.api.support import JobPath, heavy, service
from gramwatt.service.common.requests import JOB_STATES, JobList
from gramwatt.service.jobs.advice import comparable_documents, earlier_runs
from gramwatt.service.jobs.documents import RUNS, job_summary, run_ids
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.jobs.projects import project_names
from gramwatt.service.pages.frame import PER_PAGE, page, query, route

REPORT_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
OTHERS_SHOWN = 20
SIDES: tuple[Literal["before"], Literal["after"]] = ("before", "after")
COLUMNS = {"started_at": "Started", "duration": "Time", "energy": "Energy", "total": "CO2e"}
"""Columns that the list can be sorted by."""
FILTERS = frozenset(JobsQuery.__struct_fields__) - {"limit", "cursor", "wait"}
_ID = ID_PATTERN.pattern
_IDS = re.compile(rf"{_ID}([\s,]+{_ID})*")
JobIds = Annotated[str, Meta(max_length=8192)]
"""A job's id, a name for its newest completed runs, or several ids."""


class CompareQuery(Struct, frozen=True, kw_only=True):
    """The runs of both sides, and in which unit of work.

    `run` are runs that were ticked in a list, of which the sides are still to be told.
    """

    before: Annotated[list[JobIds], Meta(max_length=RUNS_MOST)] = field(default_factory=list)
    after: Annotated[list[JobIds], Meta(max_length=RUNS_MOST)] = field(default_factory=list)
    run: Annotated[list[JobIds], Meta(max_length=2 * RUNS_MOST)] = field(default_factory=list)
    unit: Annotated[str, Meta(max_length=64)] | None = None


@route("/jobs", Access.READ)
def jobs() -> Response:
    """Return the list of jobs: filtered, sorted, searched, page by page."""
    chosen = query(JobsQuery)
    rows, following = list_jobs(service(), replace(chosen, limit=PER_PAGE))
    parameters = {
        name: values for name, values in request.args.lists() if name in FILTERS and any(values)
    }
    shown = set(parameters) - {"sort"}
    return page(
        "jobs.html",
        jobs=rows,
        projects=project_names(service()),
        states=JOB_STATES,
        kinds=JOB_KINDS,
        columns=COLUMNS,
        chosen=chosen,
        asked=parameters,
        is_filtered=chosen.is_filtered,
        more_filters=bool(shown - {"q", "project", "state"}),
        next_cursor=following,
        is_first=chosen.cursor is None,
        in_words=GRADE_WORDS,
        some_run=any(summary.head.state == "running" for summary in rows),
    )


@route("/jobs/<job_id>", Access.READ)
def job(job_id: str) -> Response:
    """Return one job: its short report, with links to the whole and to its other forms.

    A running one shows itself anew.
    """
    from_strings(JobPath, {"job_id": job_id}, "path")
    full = query(ReportQuery).full
    report = job_response(service(), job_id, None, "page", full=full)
    here = f"/v1/jobs/{job_id}"
    links = {
        **({"Short": f"/jobs/{job_id}"} if full else {"Whole report": f"/jobs/{job_id}?full=true"}),
        "Compare": f"/compare?{urlencode({'after': job_id})}",
        "PDF": f"{here}/report.pdf",
        "Whole PDF": f"{here}/report.pdf?full=true",
        "HTML": f"{here}/report.html?full=true",
        "JSON": f"{here}/report.json",
        "Revisions": f"{here}/revisions",
    }
    return framed(report, links, tab="jobs", live=_live(job_id, only_running=True))


@route("/jobs/<job_id>/live", Access.READ)
def live(job_id: str) -> Response:
    """Return the part of a job's page that changes while it runs; it asks for itself again."""
    from_strings(JobPath, {"job_id": job_id}, "path")
    shown = _live(job_id)
    headers = {"Cache-Control": "private, no-cache"}
    return Response(shown, headers=headers, content_type="text/html; charset=utf-8")


def _live(job_id: str, *, only_running: bool = False) -> Markup:
    summary = job_summary(service(), job_id)
    if only_running and summary.head.state != "running":
        return Markup("")
    return Markup(render_template("job_live.html", job=summary.head))  # noqa: S704


def framed(response: Response, links: dict[str, str], *, tab: str, live: str = "") -> Response:
    """Return a report as a page of the site: the frame above it, its links, no ETag, the site's
    policy.
    """
    head = render_template("frame/bar_head.html")
    bar = render_template("frame/bar.html", links=links, tab=tab, live=live)
    text = response.get_data(as_text=True)
    # The report's own policy is for files; in the site the header's holds, which allows htmx.
    own = f'<meta http-equiv="Content-Security-Policy" content="{Markup.escape(POLICY)}">'
    text = text.replace(own, "", 1).replace("</head>", f"{head}</head>", 1)
    response.set_data(text.replace("<body>", f"<body>{bar}", 1))
    response.headers.pop("ETag", None)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response


@route("/compare", Access.READ)
def comparison() -> Response:
    """Runs of two versions per unit of work: the ratio with its range, and what moved the score."""
    chosen = query(CompareQuery)
    sides = dict(zip(SIDES, _chosen_sides(chosen), strict=True))
    before, after = sides["before"], sides["after"]
    documents = [*after, *before]
    units = _units(documents)
    result: RunsComparisonDoc | None = None
    refusal: str | None = None
    if before and after and not units:
        refusal = _nothing_shared(before, after)
    elif before and after:
        try:
            with heavy():
                earlier = earlier_runs(service(), [*before, *after])
                result = compare_runs(before, after, chosen.unit or units[0], earlier)
        except ScoreError as error:
            refusal = error.message
    ids = {name: [document.job_id for document in side] for name, side in sides.items()}
    unit = {"unit": [result.unit]} if result else {}
    swapped = dict(zip(SIDES, (ids["after"], ids["before"]), strict=True))
    return page(
        "compare.html",
        chosen=chosen,
        sides=sides,
        ids=ids,
        asked=urlencode({**ids, **unit}, doseq=True),
        swapped=urlencode({**swapped, **unit}, doseq=True),
        found=result,
        refusal=refusal,
        others=_others(documents[0].project, {d.job_id for d in documents}) if documents else [],
        units=units,
        rows=_terms(before, after, result.unit) if result else [],
    )


def _chosen_sides(chosen: CompareQuery) -> tuple[list[JobDoc], list[JobDoc]]:
    """Return the documents of both sides, at most one more than a side may have of each.

    Of one job alone, the side before it has the runs of its name that it follows.
    """
    before, after, ticked = (
        list(dict.fromkeys(job_id for text in texts for job_id in _named(text)))[:most]
        for texts, most in (
            (chosen.before, RUNS_MOST + 1),
            (chosen.after, RUNS_MOST + 1),
            (chosen.run, 2 * RUNS_MOST),
        )
    )
    if ticked:
        return _sides(comparable_documents(service(), ticked))
    if len(after) == 1 and not before:
        before = _followed(after[0])
    of_both = {
        document.job_id: document
        for document in comparable_documents(service(), list(dict.fromkeys([*before, *after])))
    }
    return [of_both[job_id] for job_id in before], [of_both[job_id] for job_id in after]


def _named(text: str) -> list[str]:
    """Return the ids that a text of the form names; raises AmbiguousIdError."""
    ids = run_ids(service(), text)
    return re.split(r"[\s,]+", text) if ids == [text] and _IDS.fullmatch(text) else ids


def _followed(job_id: str) -> list[str]:
    """Return the newest completed runs of the same name that a job follows."""
    head = job_summary(service(), job_id).head
    same = JobList(limit=RUNS, project=head.project, name=head.name, state="completed")
    until = datetime.fromisoformat(head.started_at)
    rows, _ = list_jobs(service(), replace(same, until=until))
    return [row.head.job_id for row in reversed(rows) if row.head.job_id != job_id]


def _units(documents: Sequence[JobDoc]) -> list[str]:
    """Return the units that every one of these jobs counts, in which alone they can be compared."""
    counted = [[row.unit for row in document.sci] for document in documents]
    return [unit for unit in counted[0] if all(unit in of for of in counted)] if counted else []


def _nothing_shared(before: Sequence[JobDoc], after: Sequence[JobDoc]) -> str:
    """Return why these sides have no unit in common, and what could be compared instead."""
    sides = []
    for name, side in (("before", before), ("after", after)):
        units = sorted({row.unit for document in side for row in document.sci})
        sides.append(f"{name} counts {', '.join(units) or 'nothing'}")
    return (
        f"These runs have no unit of work in common: {'; '.join(sides)}. Carbon is compared per "
        "unit that every run counts, so choose runs with the same unit in the list below."
    )


def _sides(runs: Sequence[JobDoc]) -> tuple[list[JobDoc], list[JobDoc]]:
    """Return ticked runs as before and after: by their two names, else before and after the longest
    time between two of them.
    """
    ordered = sorted(runs, key=lambda run: (run.started_at, run.job_id))
    names = list(dict.fromkeys(run.name for run in ordered))
    if len(names) == 2:
        before, after = ([run for run in ordered if run.name == name] for name in names)
        return before, after
    starts = [datetime.fromisoformat(run.started_at) for run in ordered]
    longest = max(range(1, len(starts)), key=lambda n: starts[n] - starts[n - 1], default=1)
    return ordered[:longest], ordered[longest:]


def _terms(
    before: list[JobDoc], after: list[JobDoc], unit: str
) -> list[tuple[str, str, list[Quantity | None]]]:
    """Return each term of the comparison: its name in it, in words, and its figure on both sides.

    Energy and hardware are per unit of work, all runs of a side over all their work. Intensity and
    PUE are the means of a side, by energy.
    """
    sides = before, after
    return [
        ("energy", f"Energy per {unit}", [_per_unit(side, "energy_kwh", unit) for side in sides]),
        ("intensity", "Grid intensity", [_mean(side, "intensity_g_per_kwh") for side in sides]),
        ("pue", "Site overhead (PUE)", [_mean(side, "pue") for side in sides]),
        (
            "embodied",
            f"Making the hardware, per {unit}",
            [_per_unit(side, "embodied_g", unit) for side in sides],
        ),
    ]


def _mean(side: Sequence[JobDoc], term: Literal["intensity_g_per_kwh", "pue"]) -> Quantity | None:
    """Return the mean of a term over the energy of all runs; that of all where they have one."""
    figures: list[Quantity] = [getattr(run.method, term) for run in side]
    if all(figure == figures[0] for figure in figures):
        return figures[0]
    weights = [run.energy_kwh.value if run.energy_kwh else 0.0 for run in side]
    if not sum(weights):
        return None
    shares = [weight / sum(weights) for weight in weights]
    mean = total(figure.scaled(share) for figure, share in zip(figures, shares, strict=True))
    return mean.bare() if mean else None


def _per_unit(
    side: Sequence[JobDoc], term: Literal["energy_kwh", "embodied_g"], unit: str
) -> Quantity | None:
    """Return a term of all runs over all their work, energy in joules; None where it is not known
    of one.
    """
    figures = [getattr(run, term) for run in side]
    count = sum(row.count for run in side for row in run.sci if row.unit == unit)
    if None in figures or not count:
        return None
    whole = total(figures)
    if whole is None:
        return None
    size, base = (J_PER_KWH, "J") if term == "energy_kwh" else (1.0, whole.unit)
    return whole.scaled(size / count, f"{base}/{unit}").bare()


def _others(project: str, named: Collection[str]) -> list[JobHead]:
    rows, _ = list_jobs(service(), JobList(limit=OTHERS_SHOWN, project=project))
    heads = [row.head for row in rows]
    return [h for h in heads if h.job_id not in named and h.state != "running"]
