"""The command `gramwatt sync`: close dead jobs, then send or score what is spooled."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gramwatt.collectors.cli.options import show
from gramwatt.collectors.settings.config import Config, resolve
from gramwatt.collectors.settings.files import whole_file, why
from gramwatt.collectors.settings.installation import install_command
from gramwatt.collectors.settings.platform import refused
from gramwatt.collectors.track.messages import print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gramwatt.collectors.settings.installation import LocalStore
    from gramwatt.collectors.spool.send import SyncResult

BEHIND_NICE = 10
"""Scoring behind a job gives way to the next job."""
LOG_LIMIT_B = 1_000_000


def sync(
    context: typer.Context,
    job: Annotated[str | None, typer.Option(help="Only this job.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    summary_json: Annotated[
        str | None, typer.Option(help="With --job: its document to this file, - for stdout.")
    ] = None,
    behind: Annotated[bool, typer.Option("--behind", hidden=True)] = False,
    answer: Annotated[str | None, typer.Option("--answer", hidden=True)] = None,
) -> None:
    """Close the jobs whose meter died, then send or score all spooled journals."""
    # `run` starts this while it blocks the signals that it passes on to its command.
    if text := refused():
        print_message(text)
        raise typer.Exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    config = resolve()
    store = None if config.server and not behind else context.obj()
    if behind:
        _score_behind(config, store)
        return
    if answer and job:
        _emit("-", json.dumps(answer_of(config, store, job, answer)), "")
        return
    done, document = _sync(config, store, job, wants_document=bool(summary_json), shown=not quiet)
    written = True
    if summary_json and document is not None:
        written = _emit(summary_json, json.dumps(document), f"gramwatt job {job}")
    for text in [*([] if quiet else done.remarks), *(problem.text for problem in done.problems)]:
        print_message(text)
    if not quiet:
        _report_sync(done, config)
    raise typer.Exit(1 if done.problems or not written else 0)


def _sync(
    config: Config, store: LocalStore | None, job: str | None, *, wants_document: bool, shown: bool
) -> tuple[SyncResult, Mapping[str, Any] | None]:
    """Send or score what is spooled; return what was done, and the document of the one job."""
    from gramwatt.collectors.spool import score, send
    from gramwatt.sci.figures.errors import GramwattError

    done, document = send.SyncResult(), None
    try:
        done = send.sync(config, store, job, shown=shown)
        if job and wants_document and not done.problems:
            document = score.job_document(job, config, done.server or store)
    except send.NotTaken as error:
        done.problems.append(send.Problem(error.code, str(error)))
    except OSError as error:
        text = f"{error}; set GRAMWATT_HOME to a folder that can be written"
        done.problems.append(send.Problem("home-unusable", text))
    except GramwattError as error:  # such as a broken overlay or a store that cannot be used
        text = f"{error.message}; journals stay spooled"
        done.problems.append(send.Problem("store-unusable", text))
    return done, document


def answer_of(config: Config, store: LocalStore | None, job: str, what: str) -> Mapping[str, Any]:
    """Return the answer to `track.launch.ask_sync`, for programs."""
    from gramwatt.collectors.spool import spool
    from gramwatt.collectors.spool.score import document_so_far

    if what == "so-far" and (document := document_so_far(job, config)) is not None:
        return {"document": document, "sent": False, "problem": None}
    done, document = _sync(config, store, job, wants_document=what != "sent", shown=False)
    problem = done.problems[0]._asdict() if done.problems else None
    # Where nothing is spooled, another `gramwatt sync` has sent it.
    sent = not problem and (job in done.sent or not spool.folders(config.home, job))
    return {"document": document, "sent": sent, "problem": problem}


def _score_behind(config: Config, store: LocalStore | None) -> None:
    """Score what is spooled, for the meter of a job that has ended; messages go to a file."""
    from gramwatt.collectors.spool.send import score_behind
    from gramwatt.collectors.spool.spool import LEAST_FREE_B, usable_home
    from gramwatt.sci.figures.errors import GramwattError

    with contextlib.suppress(OSError):
        _log_to(usable_home(config.home, LEAST_FREE_B) / "sync.log")
        os.nice(BEHIND_NICE)
        if store is not None:
            try:
                score_behind(config, store)
            except GramwattError as error:
                print_message(f"{error.message}; journals stay spooled")


def _log_to(path: Path) -> None:
    """Make a file the output of this process; raises OSError."""
    mode = os.O_TRUNC if path.exists() and path.stat().st_size > LOG_LIMIT_B else os.O_APPEND
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | mode, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _emit(target: str, text: str, elsewhere: str) -> bool:
    if target != "-":
        return write_summary(Path(target), text + "\n", elsewhere)
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `run` has stopped waiting; the score is in the store
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _report_sync(done: SyncResult, config: Config) -> None:
    for verb in ("closed", "sent", "scored", "running"):
        jobs = getattr(done, verb)
        for name in dict.fromkeys(jobs):
            show(f"{verb} {name}")
    if waiting := len(done.waiting):
        print_message(
            f"{waiting} {'job stays' if waiting == 1 else 'jobs stay'} spooled in {config.home}; "
            f"set GRAMWATT_SERVER, or keep them here with `{install_command('service')}`"
        )


def write_summary(path: Path, text: str, elsewhere: str) -> bool:
    """Write a file in one step, so that no reader finds half of it; says why where it cannot."""
    try:
        with whole_file(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        print_message(f"cannot write {path}: {why(error)}; see `{elsewhere}`")
        return False
    return True
