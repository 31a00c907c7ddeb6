"""Registers the service's commands; defines `serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from gramwatt.collectors.settings.files import why
from gramwatt.service.cli import (
    budgets,
    card,
    compare,
    corrections,
    database,
    erase,
    evidence,
    export,
    imports,
    jobs,
    keys,
    month,
    planning,
    report,
    schedules,
)
from gramwatt.service.cli.common import (
    DatabaseUrl,
    refusals,
    service_config,
    stop,
)


def add_commands(app: typer.Typer) -> None:
    """Add the service's commands to the product's command."""
    app.command()(serve)
    app.command()(schedules.scheduler)
    app.command()(planning.plan)
    app.command()(planning.intensity)
    app.command()(jobs.jobs)
    app.command()(jobs.job)
    app.command()(month.month)
    app.command()(compare.compare)
    app.command("assert")(compare.assert_)
    app.command()(corrections.rm)
    reports = typer.Typer(no_args_is_help=True, help="Write a report of a job, a month or a year.")
    reports.command("job")(report.report_job)
    reports.command("month")(report.report_month)
    reports.command("year")(report.report_year)
    reports.command("comparison")(report.report_comparison)
    app.add_typer(reports, name="report")
    cards = typer.Typer(no_args_is_help=True, help="Write a job's emissions into a model card.")
    cards.command()(card.write)
    cards.command()(card.push)
    app.add_typer(cards, name="card")
    tables = typer.Typer(no_args_is_help=True, help="Upgrade, check, copy or back up the database.")
    tables.command()(database.upgrade)
    tables.command()(database.check)
    tables.command()(database.backup)
    tables.command()(database.restore)
    app.add_typer(tables, name="db")
    access = typer.Typer(
        no_args_is_help=True,
        help="Make, rotate and revoke the server's keys; the audit log; a key to sign evidence.",
    )
    access.command("create")(keys.key_create)
    access.command("list")(keys.key_list)
    access.command("rotate")(keys.key_rotate)
    access.command("revoke")(keys.key_revoke)
    access.command("log")(keys.key_log)
    access.command("signing")(evidence.key_signing)
    app.add_typer(access, name="key")
    app.command()(keys.login)
    signed_in = typer.Typer(no_args_is_help=True, help="List and end the sessions of browsers.")
    signed_in.command("list")(keys.session_list)
    signed_in.command("end")(keys.session_end)
    app.add_typer(signed_in, name="session")
    _add_exchange(app)
    _add_groups(app)


def _add_groups(app: typer.Typer) -> None:
    """Add the groups of commands that a file has whole."""
    app.add_typer(budgets.budget_app(), name="budget")
    app.add_typer(erase.erase_app(), name="erase")


def _add_exchange(app: typer.Typer) -> None:
    """Add what writes jobs for other tools and stores, and what reads from them."""
    exports = typer.Typer(
        no_args_is_help=True, help="Write a job in another tool's format, or all journals."
    )
    exports.command("if")(export.export_if)
    exports.command("modelcard")(export.export_modelcard)
    exports.command("csv")(export.export_csv)
    exports.command("journals")(export.export_journals)
    exports.command("parquet")(export.export_parquet)
    app.add_typer(exports, name="export")
    app.add_typer(evidence.evidence_app(), name="evidence")
    incoming = typer.Typer(
        no_args_is_help=True, help="Import other tools' runs, journals, or grid intensity."
    )
    incoming.command("codecarbon")(imports.import_codecarbon)
    incoming.command("journals")(imports.import_journals)
    incoming.command("prometheus")(imports.import_prometheus)
    incoming.command("intensity")(imports.import_intensity)
    app.add_typer(incoming, name="import")


def serve(
    host: Annotated[
        str, typer.Option(help="Beyond this machine: see --behind-proxy.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8642,
    database_url: DatabaseUrl = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Leave this machine: a proxy in front does TLS.")
    ] = False,
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Leave this machine without TLS.")
    ] = False,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the pages in this machine's browser.")
    ] = False,
) -> None:
    """Serve the pages and the API, and do the periodic work."""
    from gramwatt.service.server import Listen, run

    try:
        with refusals():
            listen = Listen(host, port, plain_allowed=behind_proxy or insecure_http)
            run(service_config(database_url), listen, open_browser=open_browser)
    except ValueError as error:
        stop(2, str(error))
    except OSError as error:
        what = f"cannot serve on {host}:{port}" if error.filename is None else str(error.filename)
        stop(1, f"{what}: {why(error)}")
