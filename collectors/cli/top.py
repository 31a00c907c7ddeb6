"""The command `gramwatt top`: what the running jobs of this machine draw and emit now."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from gramwatt.collectors.cli.options import AsJson, refuse, stop
from gramwatt.collectors.cli.server import Refused, client_of
from gramwatt.collectors.settings.config import PARSERS
from gramwatt.sci.figures.structs import convert

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gramwatt.collectors.settings.config import Config
    from gramwatt.collectors.spool.live import LiveJob

NONE = "No job runs on this machine. Run one under the meter: gramwatt run -- python train.py"
INSTEAD = "without --server: the jobs of this machine"
NONE_THERE = "No job runs that this server knows and the key may read."
KEYS = "q quits"
TITLES = ("Time", "Power", "CO2e/h", "Units/s", "Use")
STALE_S = 120.0
"""Age from which the newest reading is called old [s]: meters write every 10 s."""
JOBS_MOST = 50
"""Running jobs of a server that are shown, the newest: each is a request."""
TIMEOUT_S = 10.0


def top(
    interval: Annotated[
        float, typer.Option(min=1, max=3600, help="Seconds between two readings.")
    ] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    as_json: AsJson = False,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Jobs that this server knows.")
    ] = None,
) -> None:
    """Show power, gCO2e per hour and units per second of the running jobs.

    Read from the journals that the meters of this machine write, whether
    they are sent to a server or not; with --server from that server's
    scores of running jobs, with units per second since each began.
    q or Ctrl-C ends it; in a pipe it prints one table.
    """
    if server is not None:
        try:
            server = PARSERS["server"](server)
        except ValueError as error:
            refuse(f"--server: {error}")
    try:
        _top(interval, server, once=once, as_json=as_json)
    except Refused as error:  # caught after the screen is given back, which would swallow it
        stop(1, str(error))


def _top(interval_s: float, server: str | None, *, once: bool, as_json: bool) -> None:
    if as_json:
        jobs = [_document(job) for job in _jobs(server)]
        print(json.dumps(to_builtins({"jobs": jobs}), indent=2, allow_nan=False))
        return
    with suppress(KeyboardInterrupt):
        if once or not sys.stdout.isatty():
            from rich.console import Console

            Console().print(_shown(server))
        else:
            _follow(interval_s, server)


def _jobs(server: str | None) -> list[LiveJob]:
    """Return the running jobs of a server, or of this machine; raises Refused."""
    from gramwatt.collectors.settings.config import resolve

    config, now = resolve({"server": server}), datetime.now(UTC)
    if server is None:
        from gramwatt.collectors.spool.live import live_jobs

        return live_jobs(config.home, config, now)
    if config.server is None:
        why = next(problem.why for problem in config.problems if problem.key == "server")
        raise Refused(1, f"--server: {why}")
    return _server_jobs(config, now)


def _server_jobs(config: Config, now: datetime) -> list[LiveJob]:
    """Return the running jobs that the key may read, the newest first; raises Refused."""
    from gramwatt.collectors.client import ConflictError, InvalidError, NotFoundError
    from gramwatt.collectors.spool.live import live_job_of
    from gramwatt.sci.figures.document import JobDoc

    jobs = []
    with client_of(config, TIMEOUT_S, INSTEAD) as (api, _):
        for head in islice(api.jobs(state="running", limit=JOBS_MOST), JOBS_MOST):
            with suppress(NotFoundError, ConflictError, InvalidError):  # it has no score yet
                jobs.append(live_job_of(convert(api.report(head["job_id"]), JobDoc), now))
    return jobs


def _shown(server: str | None) -> RenderableType:
    return _table(_jobs(server), NONE if server is None else NONE_THERE)


def _follow(interval_s: float, server: str | None) -> None:
    """Show the table again and again until q is typed; each below the last on a dumb terminal."""
    from rich.console import Console, Group
    from rich.live import Live

    def shown() -> RenderableType:
        return Group(_shown(server), KEYS)

    console = Console()
    live = Live(console=console, screen=True, auto_refresh=False)
    dumb = console.is_dumb_terminal
    show = console.print if dumb else partial(live.update, refresh=True)
    with _typed() as typed, nullcontext() if dumb else live:
        show(shown())
        while not typed(interval_s):
            show(shown())


@contextmanager
def _typed() -> Iterator[Any]:
    """Yield a function that waits so many seconds [s] and says whether q was typed."""
    if not sys.stdin.isatty():
        yield _waits
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda wait_s: _quits(descriptor, wait_s)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _waits(wait_s: float) -> bool:
    time.sleep(wait_s)
    return False


def _quits(descriptor: int, wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while (left_s := end - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left_s)[0]:
            typed = os.read(descriptor, 64)
            if not typed or b"q" in typed.lower():
                return True
    return False


def _table(jobs: Sequence[LiveJob], none: str = NONE) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from gramwatt.sci.figures.printable import on_terminal

    if not jobs:
        return Text(none)
    rows = [_cells(job) for job in jobs] + ([_sums(jobs)] if len(jobs) > 1 else [])
    # What a name is cut to is left to rich; the figures are never cut.
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True)
    table.add_column("Job", no_wrap=True, overflow="ellipsis", ratio=1)
    for n, title in enumerate(TITLES, start=1):
        least = max(len(title), *(len(row[n]) for row in rows))
        table.add_column(title, justify="right", no_wrap=True, min_width=least)
    for row in rows:
        table.add_row(*(Text(on_terminal(cell)) for cell in row))
    notes = [Text(line) for line in _notes(jobs)]
    return Group(table, *notes)


def _cells(job: LiveJob) -> list[str]:
    from gramwatt.sci.figures.formatting import number, percent, plain, value_text
    from gramwatt.sci.figures.printable import clean

    name = " ".join(clean(job.name).split())
    rate = "-"
    if job.units_per_s is not None:
        rate = plain(f"{number(job.units_per_s, 3)} {(job.unit or '')[:12]}")
    return [
        f"{name or job.job_id}{'' if job.sci else '*'}",
        _length(job.duration_s),
        plain(value_text(job.power_w)) if job.power_w else "-",
        _carbon(job),
        rate,
        plain(percent(job.utilisation)) if job.utilisation is not None else "-",
    ]


def _carbon(job: LiveJob) -> str:
    """Return the rate with its range in g/h, or in kg/h where that is shorter."""
    from gramwatt.sci.figures.formatting import plain, text

    if job.g_per_h is None:
        return "-"
    return plain(text(job.g_per_h)).replace(" CO2e/h", "")


def _sums(jobs: Sequence[LiveJob]) -> list[str]:
    """Return power and carbon of all jobs, where those of each are known."""
    from gramwatt.sci.figures.formatting import plain, text, value_text
    from gramwatt.sci.figures.quantity import total

    known_w = [job.power_w for job in jobs if job.power_w]
    known_g = [job.g_per_h for job in jobs if job.g_per_h]
    power = total(known_w) if len(known_w) == len(jobs) else None
    grams = total(known_g) if len(known_g) == len(jobs) else None
    return [
        f"all {len(jobs)}",
        "",
        plain(value_text(power)) if power else "-",
        plain(text(grams)).replace(" CO2e/h", "") if grams else "-",
        "",
        "",
    ]


def _notes(jobs: Sequence[LiveJob]) -> list[str]:
    lines = []
    if any(not job.sci for job in jobs):
        lines.append("* no SCI: no grid zone is known, or a meter is synthetic")
    old = [job.age_s for job in jobs if job.age_s is not None and job.age_s > STALE_S]
    if old:
        lines.append(f"the oldest of the newest readings is {_length(max(old))} old")
    lines.append(f"{datetime.now(UTC):%H:%M:%S} UTC")
    return lines


def _length(seconds: float) -> str:
    from gramwatt.sci.figures.formatting import duration, plain

    return plain(duration(max(0.0, float(round(seconds)))))


def _document(job: LiveJob) -> dict[str, Any]:
    document = job._asdict()
    for name in ("power_w", "g_per_h"):
        document[name] = document[name].bare() if document[name] else None
    return document
