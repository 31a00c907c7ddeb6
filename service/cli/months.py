"""The commands `gramwatt month close` and `gramwatt month reopen`."""

from __future__ import annotations

from typing import Annotated

import typer

from gramwatt.service.cli.common import author, current_service, require_month, stop

Month = Annotated[str, typer.Argument(metavar="YYYY-MM", help="The month.")]


def month_close(month: Month) -> None:
    """Close a complete month: what changes its report from then on is a restatement."""
    from gramwatt.service.months.closing import close_month

    require_month(month)
    with current_service() as service:
        found = close_month(service, month, by=author())
    print(f"{month} is closed with revision {found['closings'][-1]['revision']}")


def month_reopen(
    month: Month,
    reason: Annotated[str, typer.Option(help="Why; it stays on record.")],
) -> None:
    """Open a closed month again."""
    from gramwatt.service.months.closing import reopen_month

    require_month(month)
    if not reason.strip():
        stop(2, "--reason: say why the month is opened again")
    with current_service() as service:
        reopen_month(service, month, reason, by=author())
    print(f"{month} is open again")
