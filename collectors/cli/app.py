"""The command `gramwatt`: the table of its commands, its help, and the app of those asked for.

Help and the table need the standard library alone: a command is imported when it is given.
"""

from __future__ import annotations

import difflib
import sys
from importlib import import_module
from shlex import join
from shutil import which
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import typer

    from gramwatt.collectors.settings.installation import LocalStore


class Command(NamedTuple):
    """Where a command is, and its line of the help."""

    target: str
    """Module and attribute: a function, or a typer app for a group of commands."""
    help: str
    needs_service: bool = False


def _cli(target: str, text: str) -> Command:
    return Command(f"gramwatt.collectors.cli.{target}", text)


def _service(target: str, text: str) -> Command:
    return Command(f"gramwatt.service.{target}", text, needs_service=True)


FIRST = {
    "run": _cli("run:start", "measure a command: gramwatt run -- python train.py"),
    "jobs": _service("cli.jobs:jobs", "list jobs, newest first"),
    "job": _service("cli.jobs:job", "show a job; --set zone=DE declares what was not known"),
    "compare": _service("cli.compare:compare", "what changed per unit; --fail-above 5% for CI"),
    "month": _service("cli.month:month", "a month: total, causes, budgets, what to do"),
    "suggest": _cli("suggest:command", "what would emit less for the same work"),
    "plan": _service("cli.planning:plan", "when and where a job would emit least"),
    "estimate": _cli("estimate:command", "energy and carbon without measuring"),
    "report": _service("cli.report:app", "a job, month or year as HTML, PDF, tables, model card"),
    "serve": _service("cli.serve:serve", "pages and API for a browser and a team"),
    "doctor": _cli("doctor:doctor", "what can be measured here, and how to fix the rest"),
}
"""What a newcomer needs, in that order."""
MORE = {
    "top": _cli("top:top", "power and carbon of the running jobs, live"),
    "budget": _service("cli.budgets:app", "what projects may emit in a month"),
    "intensity": _service("cli.planning:intensity", "a zone's grid intensity over time"),
    "catalog": _cli("catalog:app", "hardware, CPUs, instances, regions, zones"),
    "evidence": _service("cli.evidence:app", "a score with all its inputs, scored again by others"),
    "import": _service("cli.imports:app", "codecarbon, Prometheus, journals, grid intensity"),
    "export": _service("cli.export:app", "all journals, or Parquet files"),
    "rm": _service("cli.jobs:rm", "delete a job for good"),
    "sync": _cli("sync:sync", "send or score what is spooled"),
    "login": _cli("login:login", "store a key for a server"),
    "slurm": _cli("slurm:app", "measure every job of a Slurm node"),
    "demo": _service("demo.flow:demo", "train an example twice and report both"),
    "admin": _service("cli.admin:app", "keys, sessions, audit log, tasks, database, erasure"),
}
COMMANDS = {**FIRST, **MORE}
OF_SERVER = frozenset({"jobs", "job", "compare", "month", "rm"})
"""Commands that need no extra here where a server is set: they show its jobs."""
VALUE = "Energy, carbon and SCI score (ISO/IEC 21031) of AI jobs."
JOBS = "A JOB is an id, `last` or a name. Options: gramwatt COMMAND --help"
CLOSE = 0.7
"""How alike a mistyped name is to what it is taken for, at least (difflib's ratio)."""
ELSEWHERE = {
    **dict.fromkeys(("train", "measure", "monitor", "track", "exec", "start"), "run"),
    **dict.fromkeys(("list", "ls", "ps", "history", "runs"), "jobs"),
    **dict.fromkeys(("show", "info", "view", "status"), "job"),
    **dict.fromkeys(("diff", "assert", "check"), "compare"),
    **dict.fromkeys(("config", "detect", "settings"), "doctor"),
    **dict.fromkeys(("ui", "server", "dashboard", "board", "scheduler"), "serve"),
    **dict.fromkeys(("delete", "remove"), "rm"),
    **dict.fromkeys(("key", "session", "db", "erase", "log"), "admin"),
    **{"card": "report", "year": "report", "upload": "sync", "auth": "login"},
    **{"advise": "suggest", "recommend": "suggest", "hardware": "catalog"},
}
"""What other tools call it, and the command that does it here."""


def help_text() -> str:
    """Return the help of the whole command, at most 30 lines of 80 columns."""
    width = max(map(len, COMMANDS))
    first, more = (
        [f"  {name:<{width}}  {command.help}" for name, command in group.items()]
        for group in (FIRST, MORE)
    )
    rule = "  " + "-" * (width + 2 + max(len(command.help) for command in COMMANDS.values()))
    return "\n".join([VALUE, "", *first, rule, *more, "", JOBS])


def unknown_text(words: Sequence[str]) -> str:
    """Return what to do about words of which the first is not a command."""
    name, every = words[0], {**ELSEWHERE, **dict(zip(COMMANDS, COMMANDS, strict=True))}
    close = difflib.get_close_matches(name, every, n=2, cutoff=CLOSE)
    meant = list(dict.fromkeys(every[word] for word in close))
    if not meant and which(name):
        return (
            f"{name!r} is not a command of gramwatt. To measure it: gramwatt run -- {join(words)}"
        )
    question = f" Did you mean {' or '.join(meant)}?" if meant else ""
    return f"{name!r} is not a command.{question} All commands: gramwatt --help"


def build_app(
    store: Callable[[], LocalStore | None], names: Iterable[str] = tuple(COMMANDS)
) -> typer.Typer:
    """Return the typer app of these commands. `store` gives the local store, None without one."""
    import typer

    from gramwatt.collectors.cli.options import OnceCommand, Root

    app = typer.Typer(
        name="gramwatt",
        cls=Root,
        add_completion=False,
        help=VALUE,
        context_settings={"obj": store, "max_content_width": 80},
        rich_markup_mode=None,
    )
    app.callback()(_group)
    for name in names:
        module, _, attribute = COMMANDS[name].target.partition(":")
        target: Any = getattr(import_module(module), attribute)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name)
        else:
            settings = getattr(sys.modules[module], "COMMAND", {})
            app.command(name, **settings)(target)
    groups = [app]
    while groups:
        group = groups.pop()
        groups += [each.typer_instance for each in group.registered_groups if each.typer_instance]
        for each in group.registered_commands:
            each.cls = OnceCommand
    return app


def _group() -> None:
    """Make a group of a single command, which would lose its name."""
