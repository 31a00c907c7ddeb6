"""`gramwatt doctor`: what can be measured here; with --settings, every setting and its origin."""

from __future__ import annotations

import json
import shutil
from typing import Annotated, Any

import typer

from gramwatt.collectors.cli.options import AsJson, show
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.config import describe, resolve
from gramwatt.collectors.track.messages import print_message


def doctor(
    settings: Annotated[
        bool,
        typer.Option("--settings", help="Every setting instead; exit code 2 where one is wrong."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every finding, not only what is not well.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print how good figures will be here, what would make them better, and the exact fixes."""
    if settings:
        show_settings(as_json)
        return
    from gramwatt.collectors.doctor.diagnosis import answer, examine, outlook

    findings = examine(resolve())
    if as_json:
        rows = [finding.to_doc() for finding in findings]
        document = {"outlook": outlook(findings)._asdict(), "findings": rows}
        print(json.dumps(document, indent=2))
        return
    show(*answer(findings, shutil.get_terminal_size((100, 24)).columns, whole=verbose))


def show_settings(as_json: bool) -> None:
    """Print every setting and where it comes from. Exit code 2 when a file or value is wrong."""
    config = resolve()
    shown = describe(config)
    problems = [problem.text for problem in config.problems]
    problems += place_problems(config).values()
    if as_json:
        print(json.dumps({"settings": shown, "problems": problems}, indent=2))
    else:
        width = max(map(len, shown))
        for key, item in shown.items():
            show(f"{key:<{width}}  {_plain(item['value']):<28}  {item['origin']}")
    for text in problems:
        print_message(text)
    raise typer.Exit(2 if problems else 0)


def _plain(value: Any) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
