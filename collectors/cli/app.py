"""The app of the command, with `config` and `doctor`; other modules add their commands to it."""

from __future__ import annotations

import json
import shutil
from typing import Any

import typer
from typer.core import TyperGroup

from gramwatt.collectors.cli.options import AsJson, show
from gramwatt.collectors.cli.run import add_run
from gramwatt.collectors.cli.slurm import slurm_app
from gramwatt.collectors.cli.sync import sync
from gramwatt.collectors.cli.top import top
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.config import describe, resolve
from gramwatt.collectors.track.messages import print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gramwatt.collectors.settings.installation import LocalStore

ORDER = (
    *("run", "top", "jobs", "job", "compare", "assert", "rm"),
    *("month", "report", "export", "evidence", "import", "card"),
    *(
        "estimate",
        "suggest",
        "plan",
        "intensity",
        "budget",
        "catalog",
    ),
    *("doctor", "config", "demo", "sync", "slurm"),
    *("serve", "login", "session", "key", "scheduler", "db", "erase"),
)
"""Commands as `gramwatt --help` lists them, whichever package adds them: a job's first, a server's
last."""


class InOrder(TyperGroup):
    """Lists its commands as people come to need them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names, those of ORDER first."""
        names = super().list_commands(ctx)
        return [*(name for name in ORDER if name in names), *(set(names) - set(ORDER))]


def build_app(store: Callable[[], LocalStore | None]) -> typer.Typer:
    """Return the typer app of the command. `store` gives the local store, None without one."""
    app = typer.Typer(
        name="gramwatt",
        cls=InOrder,
        no_args_is_help=True,
        add_completion=False,
        help="Energy, carbon and SCI score (ISO/IEC 21031) of AI jobs.",
        context_settings={"obj": store},
    )
    add_run(app)
    app.command()(sync)
    app.command(name="config")(show_config)
    app.command()(doctor)
    app.command()(top)
    app.add_typer(slurm_app(), name="slurm")
    return app


def leave_only(app: typer.Typer, name: str) -> None:
    """Leave the command of that name alone, where there is one: to build all takes 0.1 s."""
    commands = [
        info
        for info in app.registered_commands
        if info.callback and name == (info.name or info.callback.__name__)
    ]
    groups = [info for info in app.registered_groups if info.name == name]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups
        app.callback()(_group)


def _group() -> None:
    """Make a group of a single command, which would lose its name."""


def show_config(as_json: AsJson = False) -> None:
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


def doctor(as_json: AsJson = False) -> None:
    """Print what can be measured here, how well, what is missing, and the exact fix."""
    from gramwatt.collectors.doctor.diagnosis import examine, lines, outlook

    findings = examine(resolve())
    if as_json:
        rows = [finding.to_doc() for finding in findings]
        print(json.dumps({"findings": rows, "outlook": outlook(findings)}, indent=2))
        return
    show(*lines(findings, shutil.get_terminal_size((100, 24)).columns), "", outlook(findings))
