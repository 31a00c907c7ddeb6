"""`gramwatt run` without its summary: start the meter, run the command, close the job.

The command gets this process's standard streams, process group and every inherited descriptor; none
of them is kept open here. If measuring fails the command runs all the same, and this process exits
with its exit code.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from gramwatt.collectors.cli.exit_codes import SIGNAL_BASE, NotStarted, UsageError, not_started
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.config import Config, Problem, resolve
from gramwatt.collectors.settings.files import first_notice_today
from gramwatt.collectors.settings.launches import (
    JOB_ID,
    UNIT,
    WITHIN,
    enclosing_job,
    has_id,
    within,
)
from gramwatt.collectors.settings.orchestrators import ELSEWHERE
from gramwatt.collectors.settings.platform import switched_off
from gramwatt.collectors.settings.proc import environ_of, name_of, parent_of, reaps, system_text
from gramwatt.collectors.spool.score import preload_engine
from gramwatt.collectors.track.client import COMMAND, TRACK, WORKER, Client
from gramwatt.collectors.track.messages import print_message
from gramwatt.collectors.track.session import JOB_SETTINGS

if TYPE_CHECKING:
    from gramwatt.collectors.cli.counts import RunCounts

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
SI_KERNEL = 0x80
"""si_code of a signal that the kernel made, such as a terminal's Ctrl-C, which goes to the whole
foreground process group and so has reached the command already (linux asm-generic/siginfo.h). Only
the SIGHUP of a terminal that is closed goes to the leader of its session alone."""
SAME_S = 0.1
"""A signal of the same number that arrives this soon after one that was passed on [s] is a second
delivery of it."""
POLL_INTERVAL_S = 5.0
PENDING_INTERVAL_S = 0.05
"""How often signals and the command's end are polled where a system cannot wait for both."""
WRAPPERS = frozenset({"env", "nice", "nohup", "stdbuf", "sudo", "time"})
"""Programs that become the next one in a command, or wait for it."""
DELEGATED = (
    "has the work done by processes that are not its own: what they take of processor and memory "
    "is not counted. To have it measured, call `gramwatt run` inside, before the program itself"
)
LEFT = "running; what keeps running is not counted: keep it in the foreground to have it measured."
ENDING_S = 0.5
"""How long a process may take to end after its command before it counts as left [s]."""


class Outcome(Struct, frozen=True):
    """How the command ended: the exit code for the caller, and the signal that ended it, if any."""

    exit_code: int
    signal: int | None = None

    @property
    def state(self) -> str:
        """Return the state in the journal's `end` record."""
        if self.signal is not None:
            return "killed"
        return "failed" if self.exit_code else "completed"


class Run(NamedTuple):
    """The id of a job, how its command ended, and what the meter says of it.

    `measured`: there is something to score. `home`: where it is journaled, None where that is not
    known. `unwritten`: why the journal is not whole, "" where it is. `reports`: no other process of
    the job reports its end.
    """

    job_id: str
    outcome: Outcome
    measured: bool = False
    home: Path | None = None
    unwritten: str = ""
    reports: bool = False


def checked_config(args: Mapping[str, Any], strict: bool) -> Config:
    """Return the configuration for these arguments; raises UsageError when one of them is wrong.

    With `strict` a wrong value from a file or the environment is refused as well.
    """
    config = resolve(args)
    problems = [
        _option_text(problem)
        for problem in config.problems
        if strict or problem.origin == "argument"
    ]
    if args.get("zone") and args.get("region"):
        problems.append("give --zone or --region, not both")
    for key, text in place_problems(config).items():
        origin = config.origins.get(key, "default")
        if strict or origin == "argument":
            problems.append(text)
        elif first_notice_today(config.home, warning := f"{origin}: {key} is ignored: {text}"):
            print_message(f"{warning} [argument-ignored]")
    if problems:
        raise UsageError("; ".join(problems))
    return config


def _option_text(problem: Problem) -> str:
    if problem.key is None:
        return problem.why
    option = f"--{'tag' if problem.key == 'tags' else problem.key}"
    where = option if problem.origin == "argument" else f"{problem.origin}: {problem.key}"
    return f"{where}: {problem.why}"


def measure(
    command: list[str],
    args: Mapping[str, Any],
    strict: bool,
    name: str,
    *,
    verbose: bool = False,
    counts: RunCounts | None = None,
    more: Mapping[str, str] | None = None,
) -> Run:
    """Run `command` under the meter as the job `name`; one that is not to be found starts none.

    `counts` are what the options say that it counted, read when it has ended; `more` further
    variables for it.
    A command in a process of the same job is part of that job, which has its settings already.
    The signals in FORWARDED are passed on to the command and stay blocked here to the end. Raises
    NotStarted with `strict` when the meter is not ready, before the command starts.
    """
    if _is_missing(command[0]):
        return Run(name, Outcome(not_started(command[0], FileNotFoundError())))
    servers = counts.servers if counts else {}
    client = None if switched_off() else _started(name, args, servers, verbose=verbose)
    blocked = {*FORWARDED, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    if client is None:
        return Run(name, _supervise(command, dict(os.environ), mask, None))
    with suppress(Exception):  # while the meter starts; a broken installation stops no job
        preload_engine()
    if not client.wait_ready() and strict:
        client.stop("failed", 1)
        raise NotStarted("the meter is not ready; `gramwatt doctor` says what is missing")
    environ = {**os.environ, **(more or {}), JOB_ID: name, WITHIN: within(name)}
    if args.get("unit"):  # what a script in the command counts without a name
        environ[UNIT] = str(args["unit"])
    outcome = _supervise(command, environ, mask, client)
    try:
        if program := _delegates(command):
            client.send_notice("work-elsewhere", f"{program} {DELEGATED}")
        if orphans := _orphans(name):
            names = ", ".join(orphans)[:200]
            client.send_notice("processes-left", f"the command has left {names} {LEFT}")
        for unit, amount in counts.read(failed=bool(outcome.exit_code)) if counts else ():
            client.count(amount, unit)
        closed = client.stop(outcome.state, outcome.exit_code, outcome.signal)
    except Exception as error:  # the exit code is the command's, whatever fails here
        print_message(f"measuring could not be ended ({error!r})")
        return Run(name, outcome)
    home = Path(client.home) if closed and client.home else None
    return Run(name, outcome, client.ready, home, client.unwritten, client.reports)


def _started(
    name: str, args: Mapping[str, Any], servers: Mapping[str, Sequence[str]], *, verbose: bool
) -> Client:
    """Return the client of the job, which begins here or is joined."""
    joins = enclosing_job() == name
    unused = [key for key in JOB_SETTINGS if joins and key in args]
    args = {key: value for key, value in args.items() if key not in unused}
    outer = Client.find() if joins else None
    client = outer or Client(name, TRACK if joins else COMMAND, args, verbose=verbose)
    client.servers = servers
    if client.role == WORKER:
        client.send_settings(args)
    else:  # before signals are blocked, or the meter would have them blocked too
        client.start()
    if unused:
        text = f"gramwatt run --{' --'.join(unused)} joins job {name}, which this process is part "
        text += "of, and these settings are not used; to measure it by itself, end that job first"
        if client.role != WORKER:  # else the process that began the job prints it
            print_message(f"{text} [argument-ignored]")
        client.send_notice("argument-ignored", text)
    return client


def starts_nothing(command: list[str]) -> bool:
    """Tell whether nothing is measured: gramwatt is off, or there is no such command."""
    return switched_off() or _is_missing(command[0])


def _is_missing(name: str) -> bool:
    """Tell whether a command's file is missing, on the PATH or in the folder of its name."""
    if os.sep in name:
        return not os.path.lexists(name)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return not any(os.path.lexists(os.path.join(folder, name)) for folder in folders)


def _supervise(
    command: list[str], environ: Mapping[str, str], mask: set[Any], client: Client | None
) -> Outcome:
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
    try:
        pid = _spawn(command, environ, mask)
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        return Outcome(not_started(command[0], error))
    if client is not None:
        client.send_begin(pid)
    return _wait(pid, client)


def _spawn(command: list[str], environ: Mapping[str, str], mask: set[Any]) -> int:
    # posix_spawn keeps descriptors, group and session as they are, and can undo what Python set:
    # the signals blocked here, and SIGPIPE and SIGXFSZ, which the interpreter ignores for itself.
    restored = (signal.SIGPIPE, signal.SIGXFSZ)
    options: dict[str, Any] = {"setsigmask": mask, "setsigdef": restored}
    try:
        return os.posix_spawnp(command[0], command, environ, **options)
    except OSError as error:
        script = shutil.which(command[0])
        if error.errno != errno.ENOEXEC or script is None:
            raise
        # A script without an interpreter line is the shell's, as with execvp.
        return os.posix_spawn("/bin/sh", ["sh", script, *command[1:]], environ, **options)


def _wait(pid: int, client: Client | None) -> Outcome:
    polled_at = time.monotonic()
    passed_at: dict[int, float] = {}
    while True:
        number, code = _signal(POLL_INTERVAL_S)
        if number and not _from_terminal(number, code):
            now = time.monotonic()
            # Such as `timeout`, which signals its child and then the group of both.
            if now - passed_at.get(number, -math.inf) > SAME_S:
                passed_at[number] = now
                _forward(pid, number)
        status = _reap(pid)
        if status is not None:
            return status
        if client is not None and time.monotonic() - polled_at >= POLL_INTERVAL_S:
            polled_at = time.monotonic()
            client.poll()


def _signal(limit_s: float) -> tuple[int, int | None]:
    """Wait for one of FORWARDED or the end of a process; 0 for the latter, or for none.

    With its si_code, which macOS does not tell, as it has no wait with a time limit.
    """
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait({*FORWARDED, signal.SIGCHLD}, limit_s)
        arrived = info is not None and info.si_signo in FORWARDED
        return (info.si_signo, info.si_code) if info and arrived else (0, None)
    if not signal.sigpending().intersection(FORWARDED):
        time.sleep(min(limit_s, PENDING_INTERVAL_S))
        return 0, None
    return signal.sigwait(FORWARDED), None


def _from_terminal(number: int, code: int | None) -> bool:
    """Tell whether a terminal sent a signal to the whole group, and so to the command as well."""
    if code is None:
        return number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()
    closed = number == signal.SIGHUP and os.getsid(0) == os.getpid()
    return code == SI_KERNEL and not closed


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _forward(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError as error:  # it has ended, or runs as another user
        print_message(f"signal {number} could not be passed on: {error.strerror}")


def _reap(pid: int) -> Outcome | None:
    # Process 1 of a container inherits orphans; they are collected here too.
    outcome: Outcome | None = None
    while True:
        try:
            gone, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return outcome
        if gone == 0:
            return outcome
        if gone == pid:
            outcome = _outcome(status)


def _outcome(status: int) -> Outcome:
    code = os.waitstatus_to_exitcode(status)
    return Outcome(SIGNAL_BASE - code, -code) if code < 0 else Outcome(code)


def _orphans(job_id: str) -> list[str]:
    """Return the sorted names of this user's orphaned processes that have the job's id.

    Those of another rank of the job still have their parents. What ends with the command, as the
    resource trackers of multiprocessing and joblib do, has ENDING_S for it.
    """
    limit = time.monotonic() + ENDING_S
    while (names := _orphans_now(job_id)) and time.monotonic() < limit:
        time.sleep(0.02)
    return names


def _orphans_now(job_id: str) -> list[str]:
    """Return them as they are now; empty where there is no /proc."""
    names = []
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    for pid in pids:
        if pid == os.getpid() or not has_id(environ_of(pid), job_id) or _is_ours(pid):
            continue
        if reaps(parent_of(pid)):
            names.append(name_of(pid))
    return sorted(names)


def _delegates(command: Sequence[str]) -> str:
    """Return the program in a command that has its work done outside of it; empty without."""
    words = (os.path.basename(word) for word in command if word[:1] != "-" and "=" not in word)
    first = next((word for word in words if word not in WRAPPERS), "")
    return first if first in ELSEWHERE else ""


def _is_ours(pid: int) -> bool:
    """Tell whether a meter or a command of gramwatt runs here: they inherit an exported id."""
    words = system_text(f"/proc/{pid}/cmdline").split("\0")
    return "-m" in words and any(word.startswith("gramwatt") for word in words)
