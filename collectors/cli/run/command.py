"""The command `gramwatt run`: its options, what it checks, and what it prints at the end."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gramwatt.collectors.cli.exit_codes import FAILED, SIGNAL_BASE, USAGE, not_started
from gramwatt.collectors.cli.run.names import command_name
from gramwatt.collectors.cli.summary_file import write_summary
from gramwatt.collectors.client.client import quiet
from gramwatt.collectors.client.launch import score_with_sync, send_with_sync
from gramwatt.collectors.client.messages import print_message, write_stderr
from gramwatt.collectors.common.config import Config, plain_address
from gramwatt.collectors.common.files import why_unwritable
from gramwatt.collectors.common.identity import job_id
from gramwatt.collectors.common.once import first_today
from gramwatt.collectors.common.platform import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gramwatt.collectors.cli.run.measure import Pauses, Run

SENT_TIMEOUT_S = 3.0
SCORE_TIMEOUT_S = 30.0
"""How long `run` waits at its end [s]: until a server has the journal, which a container would take
along with it; and for the score where a file or the whole summary was asked for."""
PASS_ON = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
}
USAGE_LINE = "[OPTIONS] -- COMMAND [ARGS]..."
EPILOG = (
    "Everything after -- is the command; its output, exit code and signals pass unchanged. Other "
    "exit codes: 2 wrong arguments; 1 --strict without a meter or a spent --budget; 126, 127 "
    "and 128+n as in a shell. GRAMWATT_OFF=1 runs the command without measuring."
)


def add_run(app: typer.Typer) -> None:
    """Add the `run` command to the product's command."""
    add = app.command(
        name="run", context_settings=PASS_ON, epilog=EPILOG, options_metavar=USAGE_LINE
    )
    add(start)


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

    `timing` has the options that have it wait or pause (`timing.choice`).
    """
    if text := refused():
        return _unmeasured(command, strict, text)
    from gramwatt.collectors.cli.run import measure

    try:
        config = _checked(command, args, strict, json_summary)
    except measure.UsageError as error:
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
        done = measure.measure(
            command, given, strict, name, verbose=verbose, meanwhile=_prepare_end, pauses=pauses
        )
    except measure.MeterError as error:
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
    from gramwatt.collectors.cli.run.budget import allows
    from gramwatt.collectors.client.client import switched_off

    return switched_off() or allows(config, strict=strict)


def _timed(
    config: Config, command: list[str], job: str, strict: bool, timing: Mapping[str, Any]
) -> tuple[dict[str, str], Pauses | None] | int:
    """Wait as the options ask; tags that record it and what pauses, or the exit code."""
    if all(value is None or value is False for value in timing.values()):
        return {}, None
    from gramwatt.collectors.cli.run import measure
    from gramwatt.collectors.cli.run.timing.choice import Choice, timed
    from gramwatt.collectors.cli.run.timing.queries import NoAnswer
    from gramwatt.collectors.cli.run.timing.waiting import Left

    try:
        choice = Choice(**timing).checked()
        if measure.starts_nothing(command):
            return {}, None
        return timed(choice, config, config.name or command_name(command), job, strict=strict)
    except measure.UsageError as error:
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
    from gramwatt.collectors.cli.run.measure import UsageError, checked_config

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
        write_summary(json_summary, json.dumps(document, indent=2) + "\n", see)
    if document is not None and verbose and not quiet():
        from gramwatt.collectors.cli.summary import summary_lines

        write_stderr("\n".join(summary_lines(document, see)) + "\n")
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
