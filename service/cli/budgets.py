"""The commands `gramwatt budget ...`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.options import group, grouped, show
from gramwatt.sci.figures.checks import InputError, parse
from gramwatt.service.cli.common import (
    AsJson,
    author,
    open_service,
    print_json,
    require_month,
    stop,
    upgraded_service,
)
from gramwatt.service.common.requests import BudgetsQuery, NewBudget

if TYPE_CHECKING:
    from gramwatt.service.budgets import BudgetRow
    from gramwatt.service.notifications import OutboxRow

PAGE = 500
Month = Annotated[
    str | None, typer.Option(help="Of this month only, YYYY-MM (default: every month).")
]
ProjectName = Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")]


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """What a budget is for, and whom its alerts reach."""

    month: Month = None
    thresholds: Annotated[
        list[float] | None,
        typer.Option(
            "--threshold", help="Percent at which to alert, may be repeated (default: 50, 80, 100)."
        ),
    ] = None
    webhook: Annotated[str | None, typer.Option(help="https://... to POST alerts to.")] = None
    email: Annotated[str | None, typer.Option(help="Address to send alerts to.")] = None
    projects: Annotated[
        list[str] | None,
        typer.Option(help="A project of this budget, may be repeated; PROJECT is then its name."),
    ] = None
    cost_centre: Annotated[
        str | None,
        typer.Option(help="Of jobs with this tag cost_centre; PROJECT is then the budget's name."),
    ] = None


@grouped
def budget_set(
    project: ProjectName,
    kg: Annotated[float, typer.Argument(metavar="KG", help="kgCO2e in a month.")],
    options: BudgetOptions,
    as_json: AsJson = False,
) -> None:
    """Set the budget of a project, in place of its budget for the same month."""
    from gramwatt.service.budgets import set_budget

    document = {"project": project, "limit_kg": kg, **asdict(options)}
    try:
        new = parse(NewBudget, {name: value for name, value in document.items() if value != []})
    except InputError as error:
        stop(2, error.message)
    with upgraded_service() as service:
        row = set_budget(service, new, by=author())
    _print(row, as_json)


@partial(grouped, month="As they stand in this month, YYYY-MM (default: now).")
def budget_list(query: BudgetsQuery, as_json: AsJson = False) -> None:
    """List the budgets: what is spent of each, and where the month will end."""
    from gramwatt.service.budgets import budgets_page

    with upgraded_service() as service:
        page = budgets_page(service, query.limit, query.cursor, query.project, query.month)
    if as_json:
        print_json(page)
    elif page.budgets:
        for n, row in enumerate(page.budgets):
            show(*([""] if n else []), *_lines(row))
    else:
        show("no budget; set one: gramwatt budget set PROJECT KG")
    if page.next_cursor and not as_json:
        show(f"more budgets: --cursor {page.next_cursor}", err=True)


def budget_rm(project: ProjectName, month: Month = None) -> None:
    """Remove a budget; its alerts stay on record."""
    from gramwatt.service.budgets import remove_budget

    require_month(month)
    with upgraded_service() as service:
        remove_budget(service, project, month, by=author())
    show("removed")


def budget_check(project: ProjectName, as_json: AsJson = False) -> None:
    """Show the budget of a project this month; exit code 1 when it is spent."""
    from gramwatt.service.budgets import standing_for_job

    with open_service() as service:
        answer = standing_for_job(service, project)
    row = answer.budget
    if as_json:
        print_json(answer)
    elif row is None:
        stop(1, f"project {project!r} has no budget; set one: gramwatt budget set {project} KG")
    else:
        _print(row, as_json)
    if row is not None and row.status == "spent":
        raise typer.Exit(1)


def budget_outbox(as_json: AsJson = False) -> None:
    """List the messages of alerts and reports: sent, waiting with the reason, or given up."""
    from gramwatt.service.notifications import outbox_page

    with upgraded_service() as service:
        page = outbox_page(service, PAGE, None)
    if as_json:
        print_json(page)
    elif page.messages:
        show(*(_message_line(message) for message in page.messages))
    else:
        show("no message")


def _print(row: BudgetRow, as_json: bool) -> None:
    print_json(row) if as_json else show(*_lines(row))


def _lines(row: BudgetRow) -> list[str]:
    from gramwatt.sci.figures.formatting import (
        UNKNOWN,
        all_digits,
        grams,
        jobs_text,
        minute_text,
        plain,
        text,
    )
    from gramwatt.sci.figures.printable import clean

    when = f"{row.month} only" if row.month else "every month"
    share = row.spent_share
    spent = f"{text(grams(row.spent_kg))}, {share:.0%}" if share is not None else UNKNOWN
    ahead = row.forecast_kg
    rows = [
        ("Project", row.project),
        *([("Projects", ", ".join(row.projects))] if row.projects else []),
        *([("Cost centre", row.cost_centre)] if row.cost_centre else []),
        ("Budget", f"{all_digits(row.limit_kg)} kg CO2e, {when}; {row.status}"),
        (f"In {row.for_month}", spent),
        ("Month's end", text(grams(ahead)) if ahead else f"no forecast: {row.forecast_reason}"),
        ("Alerts at", ", ".join(f"{percent:g} %" for percent in row.thresholds)),
    ]
    targets = [target for target in (row.webhook, row.email) if target]
    rows += [("Alerts to", ", ".join(targets))] if targets else []
    rows += [
        ("Reached", f"{alert.threshold:g} %, {minute_text(alert.at)} UTC") for alert in row.alerts
    ]
    if row.jobs_running:
        rows.append(("Running", f"{jobs_text(row.jobs_running)}, with what they emitted so far"))
    if row.jobs_unknown:
        rows.append(("Unknown", f"{jobs_text(row.jobs_unknown)}, whose whole sum is not known"))
    return [plain(f"{name:<12} {clean(value)}") for name, value in rows]


def _message_line(row: OutboxRow) -> str:
    from gramwatt.sci.figures.formatting import minute_text
    from gramwatt.sci.figures.printable import clean

    what = f"report of {row.month}"
    if row.threshold is not None:
        what = f"{row.project} {row.month} at {row.threshold:g} %"
    parts = [
        f"{row.id}  {row.state:<7}  {minute_text(row.made_at)} UTC",
        what,
        f"{row.channel} {row.target}",
    ]
    if row.state != "sent" and row.error:
        parts.append(f"attempt {row.attempts}: {row.error}")
    if row.state == "waiting" and row.next_at:
        parts.append(f"next {minute_text(row.next_at)} UTC")
    return clean(", ".join(parts))


app = group(
    "Set and watch what projects may emit in a month.",
    set=budget_set,
    list=budget_list,
    rm=budget_rm,
    check=budget_check,
    outbox=budget_outbox,
)
