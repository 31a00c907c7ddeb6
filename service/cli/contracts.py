"""The commands `gramwatt contract ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramwatt.collectors.common.files import why
from gramwatt.service.cli.common import AsJson, author, print_json, stop, upgraded_service

PAGE = 500


def contract_app() -> typer.Typer:
    """Return the group of commands."""
    app = typer.Typer(
        no_args_is_help=True, help="Keep the ledger of contracts, for market-based figures."
    )
    app.command("import")(contract_import)
    app.command("list")(contract_list)
    app.command("rm")(contract_rm)
    return app


def contract_import(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="zone,vintage,volume_mwh,factor_g_per_kwh,issuer,cancellation_id",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Add the instruments of a file to the ledger; importing again changes nothing.

    A vintage is a year, a month or an hour: 2026, 2026-05, 2026-05-03T14 (UTC).

    A row with residual-mix in a column kind has the factor of a zone's residual mix, no volume.
    """
    from gramwatt.service.common.errors import CorrectionError
    from gramwatt.service.contracts import add_contracts, read_csv

    with upgraded_service() as service:
        try:
            answer = add_contracts(service, read_csv(file), by=author())
        except CorrectionError as error:
            stop(2, f"{file}: {error}; nothing was imported")
        except OSError as error:
            stop(2, f"cannot read {file}: {why(error)}")
    if as_json:
        print_json(answer)
    else:
        print(f"{answer['new']} entries are new, {answer['known']} were known")


def contract_list(as_json: AsJson = False) -> None:
    """List the ledger: instruments and residual mixes with their numbers."""
    from gramwatt.service.contracts import contracts_page

    with upgraded_service() as service:
        page = contracts_page(service, PAGE, None)
        rows = page["contracts"]
        while page["next_cursor"]:
            page = contracts_page(service, PAGE, page["next_cursor"])
            rows += page["contracts"]
    if as_json:
        print_json({"contracts": rows, "next_cursor": None})
        return
    if not rows:
        print("no contract; add some: gramwatt contract import FILE.csv")
    for row in rows:
        volume = "residual mix" if row["volume_mwh"] is None else f"{row['volume_mwh']:g} MWh"
        about = f"{row['zone']}  {row['vintage']}  {volume}  {row['factor_g_per_kwh']:g} g/kWh"
        print(f"{row['id']}  {about}  {row['issuer']}  {row['cancellation_id'] or ''}".rstrip())


def contract_rm(
    entry: Annotated[int, typer.Argument(metavar="ID", min=1, help="Its number in the ledger.")],
) -> None:
    """Remove an entry of the ledger; that it was removed stays in the audit log."""
    from gramwatt.service.common.errors import UnknownContractError
    from gramwatt.service.contracts import remove_contract

    with upgraded_service() as service:
        try:
            remove_contract(service, entry, by=author())
        except UnknownContractError as error:
            stop(1, f"{error}; gramwatt contract list shows them")
    print("removed")
