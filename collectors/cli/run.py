"""The command `gramwatt run`: its options, what it checks, and what it prints at the end.

`measure` starts the measured command, `wait` has it wait for greener hours, `counts` reads its R.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os.path import basename
from pathlib import Path
from typing import Annotated, Any

import typer

from gramwatt.collectors.cli.exit_codes import FAILED, USAGE, NotStarted, UsageError, not_started
from gramwatt.collectors.cli.options import grouped
from gramwatt.collectors.cli.sync import write_summary
from gramwatt.collectors.settings.config import Config, Metrics, for_own_process, plain_address
from gramwatt.collectors.settings.files import first_notice_today, why
from gramwatt.collectors.settings.launches import enclosing_job, job_id
from gramwatt.collectors.settings.orchestrators import ELSEWHERE, rank
from gramwatt.collectors.settings.platform import is_set, refused, switched_off
from gramwatt.collectors.track.launch import ask_sync
from gramwatt.collectors.track.messages import print_lines, print_message, quiet
from gramwatt.sci.records.records import SERVING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gramwatt.collectors.cli.measure import Run
    from gramwatt.collectors.cli.wait import Questions
    from gramwatt.collectors.settings.installation import LocalStore

    OpenStore = Callable[[], LocalStore | None]

SENT_TIMEOUT_S, STORE_TIMEOUT_S, SCORE_TIMEOUT_S = 3.0, 10.0, 30.0
"""How long `run` waits at its end [s]: until a server has the journal, which a container would take
along with it; for the score of a store that knows more than the spool; and for the score where a
file or the whole summary was asked for."""
MLFLOW_LIMIT_S = 30.0
"""How long MLflow may take for the figures [s]; alone it tries a silent server for minutes."""
BUDGET_LIMIT_S, BUDGET_STORE_LIMIT_S = 1.0, 10.0
"""How long a server, and the store, may take to answer about the budget [s]. Opening the store
takes 0.5 s of processor time, and several times as long beside busy neighbours."""
DOCUMENT_B = 65536
"""How much room a job document needs [bytes]."""
REFUSED = {"server-refused", "key-refused"}
"""Code of a server's refusal (spool/send.py)."""
WANDB = "WANDB_X_STATS_OPEN_METRICS_ENDPOINTS"
"""W&B's variable: a JSON object of names and addresses that a run polls (wandb 0.31, settings)."""
EPILOG = (
    "Everything after -- is the command; its output, exit code and signals pass unchanged. Other "
    "exit codes: 2 wrong arguments; 1 --strict without a meter or a spent --budget; 126, 127 "
    "and 128+n as in a shell. GRAMWATT_OFF=1 runs the command without measuring."
)

LAUNCHERS = frozenset(
    {
        *("accelerate", "apptainer", "bash", "chrt", "conda", "deepspeed", "env", "hatch"),
        *("horovodrun", "ionice", "jupyter", "mamba", "micromamba", "mpiexec", "mpirun", "ncu"),
        *("nice", "nohup", "nsys", "numactl", "papermill", "pdm", "pipenv", "pixi", "poetry"),
        *("ray", "rye", "setsid", "sh", "singularity", "srun", "stdbuf", "sudo", "taskset"),
        *("time", "timeout", "torchrun", "uv", "xvfb-run", "zsh", *ELSEWHERE),
    }
)
INTERPRETER = re.compile(r"(python|pypy)[\d.]*")
SCRIPT = re.compile(r".+\.(py|sh|ipynb|R|jl)")
MODULE = re.compile(r"[A-Za-z_][\w.]*")


COMMAND = {
    "context_settings": {"allow_extra_args": True, "allow_interspersed_args": False},
    "epilog": EPILOG,
    "options_metavar": "[OPTIONS] -- COMMAND [ARGS]...",
}
"""How typer takes it."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the job is."""

    project: Annotated[str | None, typer.Option(help="Project the job belongs to.")] = None
    name: Annotated[str | None, typer.Option(help="Job name (default: the command's).")] = None
    unit: Annotated[str | None, typer.Option(help="Functional unit R, such as image.")] = None
    region: Annotated[str | None, typer.Option(help="Cloud region: aws:eu-west-1.")] = None
    zone: Annotated[str | None, typer.Option(help="Grid zone: FR, DE, US-CAL-CISO.")] = None
    server: Annotated[str | None, typer.Option(help="Send the journal to this URL.")] = None
    pue: Annotated[float | None, typer.Option(help="The facility's PUE, 1 to 5.")] = None
    kind: Annotated[
        str | None,
        typer.Option(help="training, fine-tuning, inference, evaluation, data-prep or other."),
    ] = None
    tags: Annotated[list[str] | None, typer.Option("--tag", help="KEY=VALUE; may be repeated.")] = (
        None
    )
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve figures for Prometheus while it runs."),
    ] = None


@dataclass(frozen=True, slots=True)
class CountOptions:
    """Where its units of work are counted."""

    count: Annotated[
        list[str] | None, typer.Option(metavar="UNIT=N", help="R of the command; may be repeated.")
    ] = None
    count_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="UNIT=FILE:KEY|URL[=PRESET]",
            help="R out of a JSON file when it has ended, or of a server's counters while it runs: "
            "vllm, sglang, llamacpp, tgi, triton.",
        ),
    ] = None
    count_metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=UNIT", help="Another counter of that server as R."),
    ] = None


@dataclass(frozen=True, slots=True)
class Waits:
    """Whether it waits for greener hours."""

    when_greenest: Annotated[
        bool, typer.Option("--when-greenest", help="Wait for the hours of least emissions.")
    ] = False
    deadline: Annotated[str | None, typer.Option(help="Latest end: 12h, 2026-05-01T08:00Z.")] = None
    expected_hours: Annotated[
        float | None, typer.Option(help="How long it takes (default: as earlier runs).")
    ] = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `run` does beside it; `budget` asks the server, or the store."""

    json_summary: Annotated[
        Path | None, typer.Option(help="Write the job document to this file.")
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to start without a working meter.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every notice and the whole summary.")
    ] = False
    budget: Annotated[
        bool, typer.Option("--budget", help="Refuse to start when the project's is spent.")
    ] = False


@grouped
def start(
    context: typer.Context, job: JobOptions, counts: CountOptions, waits: Waits, options: RunOptions
) -> None:
    """Run a command, measure it, and print its energy and score on stderr at the end.

    Example: gramwatt run --zone FR --unit image -- python train.py --epochs 3
    """
    args = {**asdict(job), "tags": job.tags or None}
    sys.exit(run_command(context.args, args, options, context.obj, counts, waits))


def run_command(
    command: list[str],
    args: dict[str, Any],
    options: RunOptions,
    store: OpenStore = lambda: None,
    counts: CountOptions = CountOptions(),
    waits: Waits = Waits(),
) -> int:
    """Check the arguments, measure the command, print its line; return the exit code.

    `args` are the job's settings that were given; `store` opens the store of this machine.
    """
    if text := refused():
        return _unmeasured(command, options.strict, text)
    from gramwatt.collectors.cli import measure
    from gramwatt.collectors.cli.wait import Questions

    settings = {key: value for key, value in args.items() if value is not None}
    try:
        config = _checked(command, args, options.strict, options.json_summary)
        place = " ".join(["run", *map(basename, command[:2])])
        name = job_id(place, project=lambda: config.project)[0]
        counted = None
        if counts.count or counts.count_from or counts.count_metric:
            from gramwatt.collectors.cli.counts import RunCounts

            counted = RunCounts(counts.count, counts.count_from, counts.count_metric)
        questions = Questions(config, store)
        settings["default_name"] = command_name(command)
        service = {SERVING: counted.serving} if counted and counted.serving else {}
        settings |= _kind_of_a_service(config) if service else {}
        asks_budget = options.budget and not switched_off()
        if asks_budget and not _budget_allows(questions, strict=options.strict):
            return FAILED
        tags = _wait(questions, command, name, waits)
        if "tags" in settings or service or tags:
            settings["tags"] = {**service, **config.tags, **tags}
        more = wandb_environment(config.metrics, os.environ)
        done = measure.measure(
            command,
            settings,
            options.strict,
            name,
            verbose=options.verbose,
            counts=counted,
            more=more,
        )
    except NotStarted as stopped:
        print_message(str(stopped))
        return stopped.exit_code
    if done.measured:
        try:
            _report_end(done, config, options.json_summary, options.verbose, store)
        except Exception as error:
            see = f"gramwatt job {done.job_id}"
            print_message(f"the figures could not be made ({error!r}); see `{see}`")
    return done.outcome.exit_code


def _budget_allows(questions: Questions, *, strict: bool) -> bool:
    """Tell whether the command may start: not when the budget is spent. Prints what is known.

    A budget that is not known in time never keeps a command from running, unless it is strict.
    """
    from gramwatt.collectors.cli.wait import NoAnswer

    config = questions.config
    try:
        row = questions.budget(BUDGET_LIMIT_S if config.server else BUDGET_STORE_LIMIT_S)["budget"]
        if row is None:
            raise NoAnswer(f"no budget is set (`gramwatt budget set {config.project} KG` sets one)")
        status, text = str(row["status"]), _budget_text(row)
    except NoAnswer as error:
        reason = str(error)
    except Exception as error:  # an answer of another form
        reason = f"the answer cannot be read ({type(error).__name__})"
    else:
        if status == "spent":
            print_message(f"budget: {text}; the command is not started")
            return False
        if status != "within":
            print_message(f"budget: {text}")
        return True
    start = "the command is not started (--strict)" if strict else "the command starts"
    print_message(f"budget of project {config.project!r} is not known: {reason}; {start}")
    return not strict


def _budget_text(row: dict[str, Any]) -> str:
    from gramwatt.sci.figures import formatting
    from gramwatt.sci.figures.quantity import figure_of

    if "spent_kg" not in row:  # a server tells a key of a job no more than the status
        limit = f"{formatting.all_digits(row['limit_kg'])} kg CO2e in {row['for_month']}"
        return f"project {row['project']!r} has a budget of {limit}: {row['status']}"
    spent = formatting.text(formatting.grams(figure_of(row, "spent_kg")))
    share = f", {row['spent_share']:.0%}" if row["spent_share"] is not None else ""
    limit = f"of {formatting.all_digits(row['limit_kg'])} kg CO2e in {row['for_month']}"
    unknown = (
        f", and {formatting.jobs_text(row['jobs_unknown'])} not known"
        if row["jobs_unknown"]
        else ""
    )
    text = f"project {row['project']!r} has spent {spent} {limit}{share}{unknown}"
    return formatting.plain(text)


def wandb_environment(metrics: Metrics | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what has runs of W&B poll the meter, beside what its user has them poll already."""
    if metrics is None or "wandb" not in metrics.words:
        return {}
    try:
        polled = dict(json.loads(environ.get(WANDB) or "{}"))
    except (TypeError, ValueError):  # the user's, whatever it is
        return {}
    return {WANDB: json.dumps({"gramwatt": metrics.url, **polled})}


def _wait(questions: Questions, command: list[str], job: str, waits: Waits) -> dict[str, str]:
    """Wait as the options say; return tags that record it. Raises NotStarted."""
    from gramwatt.collectors.cli.measure import starts_nothing
    from gramwatt.collectors.cli.wait import WaitOptions, wait_for_greenest

    options = WaitOptions.of(**asdict(waits))
    if options is None or starts_nothing(command):
        return {}
    name = questions.config.name or command_name(command)
    return wait_for_greenest(questions, options, name, job)


def _kind_of_a_service(config: Config) -> dict[str, str]:
    """Return the kind of job that a service is, where the user has named none."""
    open_kind = enclosing_job() is None and config.origins.get("kind") == "default"
    return {"kind": "inference"} if open_kind else {}


def _report_end(
    done: Run, config: Config, json_summary: Path | None, verbose: bool, store: OpenStore
) -> None:
    """Print the line about a job, or its summary, and write the file that was asked for.

    The score is waited for where it is asked for, or where the store knows more of the job than its
    spool, as when its journal has been stored meanwhile: what is printed is what the store has.
    """
    from gramwatt.collectors.spool import spool

    local = None if config.server else store()
    joins_mlflow = done.reports and _joins_mlflow(os.environ)
    needs_score = bool(json_summary or verbose or joins_mlflow)
    taken = local and done.home is not None and not spool.folders(done.home, done.job_id)
    if not needs_score and not (local and (taken or local.knows_more(config.home, done.job_id))):
        _print_line(done, config, None)
        if config.server:
            sent = ask_sync("sent", done.job_id, SENT_TIMEOUT_S, for_own_process(config))
            if not sent.get("sent"):
                state = "is not on its server"
                _report_unscored(done.job_id, config, sent.get("problem"), None, state)
        return
    answer = _answer(
        done.job_id, config, local, SCORE_TIMEOUT_S if needs_score else STORE_TIMEOUT_S
    )
    document = answer.get("document")
    see = f"gramwatt report job {done.job_id}"
    if config.server:
        see = f"{plain_address(config.server)}/jobs/{done.job_id}"
    if document is None or not verbose:
        _print_line(done, config, document)
    elif not quiet():
        from gramwatt.collectors.cli.summary import summary_lines

        print_lines(summary_lines(document, see))
    if document is None and needs_score:
        _report_unscored(done.job_id, config, answer.get("problem"), json_summary)
    elif document is not None and json_summary is not None:
        write_summary(json_summary, json.dumps(document, indent=2) + "\n", see)
    if document is not None and joins_mlflow:
        from gramwatt.collectors.settings.http import within
        from gramwatt.collectors.track.track import flat_figures
        from gramwatt.collectors.track.trackers import log_to_mlflow

        page, figures = see if config.server else None, flat_figures(document)
        try:
            within(MLFLOW_LIMIT_S, lambda: log_to_mlflow(done.job_id, page, figures, None))
        except TimeoutError:
            print_message(f"MLflow has not taken the figures in {MLFLOW_LIMIT_S:g} s")


def _joins_mlflow(environ: Mapping[str, str]) -> bool:
    """Return whether the figures go to the run of MLflow with the job's tag: once for all ranks.

    A tracking server that only the command knows is not guessed: MLflow would make one here.
    """
    if not is_set("GRAMWATT_MLFLOW") or rank(environ):
        return False
    if not environ.get("MLFLOW_TRACKING_URI"):
        print_message("no figures go to MLflow: set MLFLOW_TRACKING_URI beside GRAMWATT_MLFLOW")
    return bool(environ.get("MLFLOW_TRACKING_URI"))


def _answer(
    job: str, config: Config, store: LocalStore | None, limit_s: float
) -> Mapping[str, Any]:
    """Return what scoring a job comes to within `limit_s` [s], as `ask_sync` does.

    In a process of its own with a server, which may take long and goes on.
    """
    from gramwatt.collectors.cli.sync import answer_of
    from gramwatt.collectors.settings.http import within

    if config.server:
        return ask_sync("document", job, limit_s, for_own_process(config))
    try:
        return within(limit_s, lambda: answer_of(config, store, job, "document"))
    except TimeoutError:
        return {}


def _print_line(done: Run, config: Config, document: Mapping[str, Any] | None) -> None:
    from gramwatt.collectors.spool.score import Ended, lines

    if done.home is not None and done.reports and not quiet():
        for text in lines(Ended(done.job_id, config, done.home, done.unwritten), document):
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
    from gramwatt.collectors.cli.measure import checked_config

    if not command:
        raise UsageError("no command given; write `gramwatt run [options] -- command args...`")
    if json_summary is not None and (text := _unwritable(json_summary)):
        raise UsageError(f"--json-summary: {text}")
    return checked_config(args, strict)


def _unwritable(path: Path) -> str | None:
    """Return why the job document cannot be written to this path, such as a full disk; None when it
    can. Tried in the path's folder with a nameless file; what exists and is no file is not tried.
    """
    from tempfile import TemporaryFile

    if str(path) == "-":
        return "standard output belongs to the command; give a file"
    where = path
    try:
        if path.is_dir():
            return f"{path} is a folder; give a file"
        if path.exists() and not path.is_file():
            return None
        where = path.resolve().parent
        with TemporaryFile(dir=where) as stream:
            stream.write(bytes(DOCUMENT_B))
    except OSError as error:  # also of asking: a name too long, a folder that cannot be entered
        return f"{where} cannot be written: {why(error)}"
    return None


def _report_unscored(
    job_id: str,
    config: Config,
    problem: Mapping[str, str] | None,
    json_summary: Path | None,
    state: str = "has no score to show",
) -> None:
    if json_summary is not None:
        why = problem["text"] if problem else "there is no job document yet"
        print_message(f"{json_summary} was not written: {why}; see `gramwatt sync --job {job_id}`")
        return
    if problem:
        code, why = problem["code"], problem["text"]
    elif config.server:
        code, why = (
            "unconfirmed",
            f"{plain_address(config.server)} has not confirmed its journal yet; ",
        )
        why += "sending goes on, and `gramwatt sync` sends what stays spooled"
    else:
        code, why = "running", "it is part of a job that still runs, or its scoring goes on"
    # Every job would say that a server is away; that it refuses this one is news.
    if code in REFUSED or first_notice_today(config.home, f"{code} {config.server or ''}"):
        print_message(f"{job_id} {state} yet: {why}")


def command_name(command: Sequence[str]) -> str:
    """Return the name of a job that was given none: `train.py` for `python -u train.py --lr 1`,
    `pkg.train` for `python -m pkg.train`.

    Behind a launcher or interpreter the first script is the name, or the module after -m; else it
    is the command itself.
    """
    first = basename(command[0])
    if first not in LAUNCHERS and not INTERPRETER.fullmatch(first):
        return first
    for before, word in zip(command, command[1:], strict=False):
        if before == "-c":
            break
        if before == "-m" and MODULE.fullmatch(word):
            return word
        if SCRIPT.fullmatch(word) and not word.startswith("-"):
            return basename(word)
    return first
