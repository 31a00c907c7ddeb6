"""The commands `run`, `sync`, `config` and `doctor`; others add theirs to the same app."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gramwatt.collectors.cli.exit_codes import FAILED, SIGNAL_BASE, USAGE, not_started
from gramwatt.collectors.cli.names import command_name
from gramwatt.collectors.cli.top import top
from gramwatt.collectors.client.client import quiet
from gramwatt.collectors.client.launch import score_with_sync, send_with_sync
from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.common.catalogs import place_problems
from gramwatt.collectors.common.config import Config, describe, plain_address, resolve
from gramwatt.collectors.common.files import whole_file, why_unwritable
from gramwatt.collectors.common.identity import job_id
from gramwatt.collectors.common.installation import install_command
from gramwatt.collectors.common.once import first_today
from gramwatt.collectors.common.platform import refused
from gramwatt.collectors.common.progress import busy, each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gramwatt.collectors.cli.run import Pauses, Run
    from gramwatt.collectors.journal.spool import SpoolFolder
    from gramwatt.collectors.journal.sync import Store

SENT_TIMEOUT_S = 3.0
SCORE_TIMEOUT_S = 30.0
"""How long `run` waits at its end [s]: until a server has the journal, which a container would take
along with it; and for the score where a file or the whole summary was asked for."""
BEHIND_NICE = 10
"""Scoring behind a job gives way to the next job."""
LOG_LIMIT_B = 1_000_000
PASS_ON = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
}
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
ORDER = (
    *("run", "top", "jobs", "job", "compare", "assert", "rm"),
    *("report", "export", "verify", "import"),
    *("estimate", "suggest", "plan", "intensity", "budget", "calibrate", "catalog"),
    *("doctor", "config", "demo", "sync"),
    *("serve", "login", "key", "scheduler", "db"),
)
"""Commands as `gramwatt --help` lists them, whichever package adds them: a job's first, a server's
last."""
RUN_USAGE = "[OPTIONS] -- COMMAND [ARGS]..."
RUN_EPILOG = (
    "Everything after -- is the command; its output, exit code and signals pass unchanged. Other "
    "exit codes: 2 wrong arguments; 1 --strict without a meter or a spent --budget; 126, 127 "
    "and 128+n as in a shell. GRAMWATT_OFF=1 runs the command without measuring."
)


class InOrder(TyperGroup):
    """Lists its commands as people come to need them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, those of ORDER first."""
        found = super().list_commands(ctx)
        return [*(name for name in ORDER if name in found), *(set(found) - set(ORDER))]


def build_app(store: Callable[[], Store | None]) -> typer.Typer:
    """The typer app of the command. `store` opens the local store; it returns None without one."""
    app = typer.Typer(
        name="gramwatt",
        cls=InOrder,
        no_args_is_help=True,
        add_completion=False,
        help="Energy, carbon and SCI score (ISO/IEC 21031) of AI jobs.",
    )
    add_run = app.command(
        name="run", context_settings=PASS_ON, epilog=RUN_EPILOG, options_metavar=RUN_USAGE
    )
    add_run(start)
    _add_sync(app, store)
    app.command(name="config")(show_config)
    app.command()(doctor)
    app.command()(top)
    return app


def start(
    context: typer.Context,
    project: Annotated[str | None, typer.Option(help="Project the job belongs to.")] = None,
    name: Annotated[str | None, typer.Option(help="Job name (default: the command's).")] = None,
    unit: Annotated[str | None, typer.Option(help="Functional unit R, such as image.")] = None,
    region: Annotated[str | None, typer.Option(help="Cloud region: aws:eu-west-1.")] = None,
    zone: Annotated[str | None, typer.Option(help="Grid zone: FR, DE, US-CAL-CISO.")] = None,
    server: Annotated[str | None, typer.Option(help="Send the journal to this URL.")] = None,
    json_summary: Annotated[
        Path | None, typer.Option(help="Write the job document to this file.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to start without a working meter.")
    ] = False,
    pue: Annotated[float | None, typer.Option(help="The facility's PUE, 1 to 5.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="training, fine-tuning, inference, evaluation, data-prep or other."),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every notice and the whole summary.")
    ] = False,
    budget: Annotated[
        bool, typer.Option("--budget", help="Refuse to start when the project's is spent.")
    ] = False,
    when_greenest: Annotated[
        bool, typer.Option("--when-greenest", help="Wait for the hours of least emissions.")
    ] = False,
    pause_above: Annotated[
        float | None, typer.Option(help="Pause it, if it bears that, above so many gCO2e/kWh.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Done by then, if it waits: 12h, 2026-05-01T08:00Z.")
    ] = None,
    expected_hours: Annotated[
        float | None, typer.Option(help="How long it takes (default: as earlier runs).")
    ] = None,
) -> None:
    """Run a command, measure it, and print its energy and score on stderr at the end.

    Example: gramwatt run --zone FR --unit image -- python train.py --epochs 3
    """
    args: dict[str, Any] = {
        "project": project,
        "name": name,
        "unit": unit,
        "region": region,
        "zone": zone,
        "server": server,
        "pue": pue,
        "kind": kind,
        "tags": tag or None,
    }
    timing = {
        "when_greenest": when_greenest,
        "pause_above": pause_above,
        "deadline": deadline,
        "hours": expected_hours,
    }
    sys.exit(run_command(context.args, args, strict, json_summary, verbose, budget, timing))


def run_command(
    command: list[str],
    args: dict[str, Any],
    strict: bool,
    json_summary: Path | None,
    verbose: bool = False,
    budget: bool = False,
    timing: Mapping[str, Any] | None = None,
) -> int:
    """Check the arguments, measure the command, print its line; returns the exit code.

    `timing` has the options that have it wait or pause (`timing/choice.py`).
    """
    if text := refused():
        return _unmeasured(command, strict, text)
    from gramwatt.collectors.cli import run

    try:
        config = _checked(command, args, strict, json_summary)
    except run.UsageError as error:
        print_message(str(error))
        return USAGE
    if budget and not _within_budget(config, strict):
        return FAILED
    given = {key: value for key, value in args.items() if value is not None}
    given["default_name"] = command_name(command)
    name = job_id()[0]
    timed = _timed(config, command, name, strict, timing or {})
    if isinstance(timed, int):
        return timed
    tags, pauses = timed
    if "tags" in given or tags:
        given["tags"] = {**config.tags, **tags}
    try:
        done = run.measure(
            command, given, strict, name, verbose=verbose, meanwhile=_prepare_end, pauses=pauses
        )
    except run.MeterError as error:
        print_message(str(error))
        return FAILED
    if done.measured:
        try:
            _report_end(done, config, json_summary, verbose)
        except Exception as error:
            see = f"gramwatt job {done.job_id}"
            print_message(f"the figures could not be made ({error!r}); see `{see}`")
    return done.outcome.exit_code


def _within_budget(config: Config, strict: bool) -> bool:
    from gramwatt.collectors.cli.budget import allows
    from gramwatt.collectors.client.client import switched_off

    return switched_off() or allows(config, strict=strict)


def _timed(
    config: Config, command: list[str], job: str, strict: bool, timing: Mapping[str, Any]
) -> tuple[dict[str, str], Pauses | None] | int:
    """Wait as the options ask; tags that record it and what pauses, or the exit code."""
    if all(value is None or value is False for value in timing.values()):
        return {}, None
    from gramwatt.collectors.cli import run
    from gramwatt.collectors.cli.timing.choice import Choice, timed
    from gramwatt.collectors.cli.timing.queries import NoAnswer
    from gramwatt.collectors.cli.timing.waiting import Left

    try:
        choice = Choice(**timing).checked()
        if run.starts_nothing(command):
            return {}, None
        return timed(choice, config, config.name or command_name(command), job, strict=strict)
    except run.UsageError as error:
        print_message(str(error))
        return USAGE
    except NoAnswer as error:
        print_message(f"--pause-above: {error}; the command is not started (--strict)")
        return FAILED
    except (KeyboardInterrupt, Left) as left:
        print_message("left while waiting; the command was not started")
        return left.exit_code if isinstance(left, Left) else SIGNAL_BASE + signal.SIGINT


def _prepare_end() -> None:
    from gramwatt.collectors.journal.ending import prepare

    with contextlib.suppress(Exception):  # a broken installation must not stop a job
        prepare()


def _report_end(done: Run, config: Config, json_summary: Path | None, verbose: bool) -> None:
    if not verbose:
        _print_line(done, config)
    if config.server and not (json_summary or verbose):
        settings = {"GRAMWATT_SERVER": config.server}
        sent, problem = send_with_sync(done.job_id, SENT_TIMEOUT_S, settings)
        if not sent or problem:
            _report_unscored(done.job_id, config, problem, None, "is not on its server")
    elif json_summary or verbose:
        scored = _await_score(done.job_id, config, json_summary, verbose)
        if verbose and not scored:
            _print_line(done, config)


def _print_line(done: Run, config: Config) -> None:
    from gramwatt.collectors.journal.ending import Ended, lines

    if done.home is not None and not quiet():
        for text in lines(Ended(done.job_id, config, done.home, done.unwritten)):
            print_message(text)


def _unmeasured(command: list[str], strict: bool, why: str) -> int:
    """Run the command on a system that cannot be measured, and report why."""
    import subprocess

    print_message(why)
    if strict or not command:
        return FAILED if command else USAGE
    try:
        return subprocess.call(command)
    except OSError as error:
        return not_started(command[0], error)


def _checked(
    command: list[str], args: dict[str, Any], strict: bool, json_summary: Path | None
) -> Config:
    from gramwatt.collectors.cli.run import UsageError, checked_config

    if not command:
        raise UsageError("no command given; write `gramwatt run [options] -- command args...`")
    if json_summary is not None and (text := _unwritable(json_summary)):
        raise UsageError(f"--json-summary: {text}")
    return checked_config(args, strict)


def _unwritable(summary: Path) -> str | None:
    """Why the job document cannot be written to this path; None when it can."""
    if str(summary) == "-":
        return "standard output belongs to the command; give a file"
    return why_unwritable(summary)


def _await_score(job_id: str, config: Config, json_summary: Path | None, verbose: bool) -> bool:
    """Wait for the score of the server or the store; write and print what was asked for.

    Returns whether there is one.
    """
    settings = {"GRAMWATT_SERVER": config.server} if config.server else {}
    document, problem = score_with_sync(job_id, SCORE_TIMEOUT_S, settings)
    see = f"gramwatt report job {job_id}"
    if config.server:
        see = f"{plain_address(config.server)}/jobs/{job_id}"
    if document is not None and json_summary is not None:
        _replace(json_summary, json.dumps(document, indent=2) + "\n", see)
    if document is not None and verbose and not quiet():
        from gramwatt.collectors.cli.summary import summary_lines

        sys.stderr.write("\n".join(summary_lines(document, see)) + "\n")
        sys.stderr.flush()
    if document is None:
        _report_unscored(job_id, config, problem, json_summary)
    return document is not None


def _report_unscored(
    job_id: str,
    config: Config,
    problem: str | None,
    json_summary: Path | None,
    state: str = "has no score to show",
) -> None:
    if json_summary is not None:
        why = problem or "there is no job document yet"
        print_message(f"{json_summary} was not written: {why}; see `gramwatt sync --job {job_id}`")
        return
    if problem is None and config.server:
        problem = f"{plain_address(config.server)} has not confirmed its journal yet; "
        problem += "sending goes on, and `gramwatt sync` sends what stays spooled"
    elif problem is None:
        problem = "it is part of a job that still runs, or its scoring goes on"
    if first_today(config.home, problem.replace(job_id, "")):
        print_message(f"{job_id} {state} yet: {problem}")


def _replace(path: Path, text: str, elsewhere: str) -> bool:
    """Write a file in one step, so that no reader finds half of it; says why where it cannot."""
    try:
        with whole_file(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        print_message(f"cannot write {path}: {error.strerror or error}; see `{elsewhere}`")
        return False
    return True


def _add_sync(app: typer.Typer, store: Callable[[], Store | None]) -> None:
    @app.command()
    def sync(
        job: Annotated[str | None, typer.Option(help="Only this job.")] = None,
        quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
        summary_json: Annotated[
            str | None, typer.Option(help="With --job: its document to this file, - for stdout.")
        ] = None,
        behind: Annotated[bool, typer.Option("--behind", hidden=True)] = False,
    ) -> None:
        """Close the jobs whose meter died, then send or score all spooled journals."""
        # `run` starts this while it blocks the signals that it passes on to its command.
        if text := refused():
            print_message(text)
            raise typer.Exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        from gramwatt.collectors.journal.sync import sync as synchronise
        from gramwatt.sci.base.errors import GramwattError

        config = resolve()
        if behind:
            _score_behind(config, store())
            return
        try:
            chosen_store = None if config.server else store()
            if quiet:
                done = synchronise(config, chosen_store, job, summary_json is not None)
            else:
                watched = chosen_store and _watched(chosen_store)
                done = synchronise(config, watched, job, summary_json is not None, _sending)
        except OSError as error:
            print_message(f"{error}; set GRAMWATT_HOME to a folder that can be written")
            raise typer.Exit(1) from None
        except GramwattError as error:  # such as a broken overlay or a store that cannot be used
            print_message(error.message)
            raise typer.Exit(1) from None
        written = True
        if summary_json and done.document is not None:
            written = _emit(summary_json, json.dumps(done.document), f"gramwatt job {job}")
        for text in [*([] if quiet else done.remarks), *done.problems]:
            print_message(text)
        if not quiet:
            _report_sync(done, config)
        raise typer.Exit(1 if done.problems or not written else 0)


def _watched(store: Store) -> Store:
    """The store with a sign on the terminal while it takes journals in."""

    def take_in(home: Path, job_id: str | None) -> list[str]:
        with busy("taking in journals"):
            return store.take_in(home, job_id)

    return type(store)(take_in, store.document)


def _sending(folders: list[SpoolFolder]) -> Iterable[SpoolFolder]:
    return each(folders, "sending")


def _score_behind(config: Config, store: Store | None) -> None:
    """Score what is spooled, for the meter of a job that has ended; messages go to a file."""
    from gramwatt.collectors.journal.spool import usable_home
    from gramwatt.collectors.journal.sync import score_behind
    from gramwatt.sci.base.errors import GramwattError

    with contextlib.suppress(OSError):
        _log_to(usable_home(config.home) / "sync.log")
        os.nice(BEHIND_NICE)
        if store is not None:
            try:
                score_behind(config, store)
            except GramwattError as error:
                print_message(error.message)


def _log_to(path: Path) -> None:
    """Make a file the output of this process; raises OSError."""
    mode = os.O_TRUNC if path.exists() and path.stat().st_size > LOG_LIMIT_B else os.O_APPEND
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | mode, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _emit(target: str, text: str, elsewhere: str) -> bool:
    if target != "-":
        return _replace(Path(target), text + "\n", elsewhere)
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `run` has stopped waiting; the score is in the store
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _report_sync(done: Any, config: Config) -> None:
    for verb in ("closed", "sent", "scored", "running"):
        jobs = getattr(done, verb)
        for name in dict.fromkeys(jobs):
            print(f"{verb} {name}")
    if done.waiting:
        print_message(
            f"{len(done.waiting)} jobs stay spooled in {config.home}; "
            f"set GRAMWATT_SERVER, or keep them here with `{install_command('service')}`"
        )


def show_config(as_json: AsJson = False) -> None:
    """Print every setting and where it comes from. Exit code 2 when a file or value is wrong."""
    config = resolve()
    shown = describe(config)
    problems = [notice.message for notice in config.notices]
    problems += place_problems(config).values()
    if as_json:
        print(json.dumps({"settings": shown, "problems": problems}, indent=2))
    else:
        width = max(map(len, shown))
        for key, item in shown.items():
            print(f"{key:<{width}}  {_plain(item['value']):<28}  {item['origin']}")
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
    from gramwatt.collectors.doctor.diagnosis import examine, lines

    findings = examine(resolve())
    if as_json:
        print(json.dumps({"findings": [finding.to_doc() for finding in findings]}, indent=2))
        return
    print("\n".join(lines(findings, shutil.get_terminal_size((100, 24)).columns)))
