"""`gramwatt demo`: train the example twice under the meter, score both, write their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEMO_PUE = 1.0
DEMO_PUE_REASON = "this machine stands in no data centre (--pue)"
PUE_MAX = 5.0
DEFAULT_FOLDER = Path("gramwatt-demo")


def add_demo(app: typer.Typer) -> None:
    """Add the command `demo` to the app; what it needs is imported when it runs."""

    @app.command()
    def demo(
        zone: Annotated[
            str | None, typer.Option(help="Grid zone of this machine: DE, FR, US-CAL-CISO.")
        ] = None,
        pue: Annotated[
            float,
            typer.Option(min=1.0, max=PUE_MAX, help="PUE of the building this machine is in."),
        ] = DEMO_PUE,
        seconds: Annotated[
            float, typer.Option(min=0.1, help="How long each of the two trainings lasts [s].")
        ] = 20.0,
        output: Annotated[
            Path, typer.Option("--output", "-o", help="Folder for the reports.")
        ] = DEFAULT_FOLDER,
    ) -> None:
        """Train the example under the meter, score it, and write its report as HTML and PDF.

        Example: gramwatt demo --zone DE
        """
        from gramwatt.service.demo.flow import Settings, demonstrate

        raise typer.Exit(demonstrate(Settings(zone, pue, seconds, output)))
