"""The command `gramwatt demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gramwatt.collectors.settings.config import PUE_MAX
from gramwatt.service.demo.summary import DEMO_PUE, summary

DEFAULT_FOLDER = Path("gramwatt-demo")


def demo(
    zone: Annotated[
        str | None, typer.Option(help="Grid zone of this machine: DE, FR, US-CAL-CISO.")
    ] = None,
    pue: Annotated[
        float,
        typer.Option(min=1.0, max=PUE_MAX, help="PUE of the building this machine is in."),
    ] = DEMO_PUE,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long each of the two trainings lasts (s).")
    ] = 20.0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the reports.")
    ] = DEFAULT_FOLDER,
) -> None:
    """Train the example twice under the meter and write both reports as HTML and PDF.

    Example: gramwatt demo --zone DE
    """
    from gramwatt.service.demo.flow import DemoError, Settings, check, measure_both

    settings = Settings(zone, pue, seconds, output)
    try:
        check(settings)
        jobs = measure_both(settings)
    except DemoError as error:
        print(f"gramwatt: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    print(summary(jobs, settings.pue))
