"""`gramwatt run` without its summary: start the meter, run the command, close the job.

The command gets this process's standard streams, process group and every inherited descriptor; none
of them is kept open here. If measuring fails the command runs all the same, and this process exits
with its exit code.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gramwatt.collectors.cli.exit_codes import SIGNAL_BASE, NotStarted, UsageError, not_started
from gramwatt.collectors.cli.run.processes import orphans
from gramwatt.collectors.cli.run.signals import GroupSignalProbe
from gramwatt.collectors.common.catalogs import place_problems
from gramwatt.collectors.common.config import Config, resolve
from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.launches import JOB_ID, UNIT, WITHIN, enclosing_job, within
from gramwatt.collectors.journal.ending import preload_engine
from gramwatt.collectors.tracking.client import Client, switched_off
from gramwatt.collectors.tracking.messages import print_message
from gramwatt.collectors.tracking.session import JOB_SETTINGS

if TYPE_CHECKING:
    from gramwatt.collectors.cli.run.counts import RunCounts
    from gramwatt.collectors.cli.run.pausing import Pauses

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
POLL_INTERVAL_S = 5.0
PENDING_INTERVAL_S = 0.05
"""How often signals and the command's end are polled where a system cannot wait for both."""
LEFT = "running; what keeps running is not counted: keep it in the foreground to have it measured."


@dataclass(frozen=True, slots=True)
class Outcome:
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
    known. `unwritten`: why the journal is not whole, "" where it is.
    """

    job_id: str
    outcome: Outcome
    measured: bool = False
    home: Path | None = None
    unwritten: str = ""


def checked_config(args: Mapping[str, Any], strict: bool) -> Config:
    """Return the configuration for these arguments; raises UsageError when one of them is wrong.

    With `strict` a wrong value from a file or the environment is refused as well.
    """
    config = resolve(args)
    own = [n for n in config.notices if strict or n.message.startswith("argument: ")]
    problems = [
        notice.message.replace("argument: tags", "--tag")
        .replace("argument: ", "--")
        .replace(" and is ignored: ", ": ")
        .replace(" is ignored: ", ": ")
        for notice in own
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


def measure(
    command: list[str],
    args: Mapping[str, Any],
    strict: bool,
    name: str,
    *,
    verbose: bool = False,
    pauses: Pauses | None = None,
    counts: RunCounts | None = None,
    more: Mapping[str, str] | None = None,
) -> Run:
    """Run `command` under the meter as the job `name`; one that is not to be found starts none.

    With `pauses` the command runs in a session of its own, so that it can be stopped and this
    process not.
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
    blocked = {*FORWARDED, signal.SIGCHLD} | ({signal.SIGTSTP} if pauses else set())
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
    outcome = _supervise(command, environ, mask, client, pauses)
    try:
        if left := orphans(name):
            names = ", ".join(left)[:200]
            client.send_notice(f"processes-left: the command has left {names} {LEFT}")
        for unit, amount in counts.read(failed=bool(outcome.exit_code)) if counts else ():
            client.count(amount, unit)
        closed = client.stop(outcome.state, outcome.exit_code, outcome.signal)
    except Exception as error:  # the exit code is the command's, whatever fails here
        print_message(f"measuring could not be ended ({error!r})")
        return Run(name, outcome)
    home = Path(client.home) if closed and client.home else None
    return Run(name, outcome, client.ready, home, client.unwritten)


def _started(
    name: str, args: Mapping[str, Any], servers: Mapping[str, Sequence[str]], *, verbose: bool
) -> Client:
    """Return the client of the job, which begins here or is joined."""
    joins = enclosing_job() == name
    unused = [key for key in JOB_SETTINGS if joins and key in args]
    args = {key: value for key, value in args.items() if key not in unused}
    client = Client(name, "track" if joins else "command", args, verbose=verbose)
    client.servers = servers
    client.start()  # before signals are blocked, or the meter would have them blocked too
    if unused:
        text = f"gramwatt run --{' --'.join(unused)} joins job {name}, which this process is part "
        text += "of, and these settings are not used; to measure it by itself, end that job first"
        print_message(f"{text} [argument-ignored]")
        client.send_notice(f"argument-ignored: {text}")
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
    command: list[str],
    environ: Mapping[str, str],
    mask: set[Any],
    client: Client | None,
    pauses: Pauses | None = None,
) -> Outcome:
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
    if pauses is not None:
        environ = {**environ, **pauses.environment()}
    try:
        pid = _spawn(command, environ, mask, own_session=pauses is not None)
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        if pauses is not None:
            pauses.end()
        return Outcome(not_started(command[0], error))
    if client is not None:
        client.send_child(pid)
    probe = GroupSignalProbe(FORWARDED)
    try:
        if pauses is not None and client is not None:
            pauses.begin(pid, client)
        return _wait(pid, client, probe, pauses)
    finally:
        if pauses is not None:
            pauses.end()
        probe.close()


def _spawn(
    command: list[str], environ: Mapping[str, str], mask: set[Any], *, own_session: bool
) -> int:
    # posix_spawn keeps descriptors, group and session as they are, and can undo what Python set:
    # the signals blocked here, and SIGPIPE and SIGXFSZ, which the interpreter ignores for itself.
    restored = (signal.SIGPIPE, signal.SIGXFSZ)
    options: dict[str, Any] = {"setsigmask": mask, "setsigdef": restored}
    if own_session:
        options["setsid"] = True
    try:
        return os.posix_spawnp(command[0], command, environ, **options)
    except OSError as error:
        script = shutil.which(command[0])
        if error.errno != errno.ENOEXEC or script is None:
            raise
        # A script without an interpreter line is the shell's, as with execvp.
        return os.posix_spawn("/bin/sh", ["sh", script, *command[1:]], environ, **options)


def _wait(
    pid: int, client: Client | None, probe: GroupSignalProbe, pauses: Pauses | None
) -> Outcome:
    polled_at = time.monotonic()
    while True:
        if pauses is not None:  # the command is in another session: nothing has reached it
            number, _ = _signal({*FORWARDED, signal.SIGTSTP}, pauses.step())
            if number:
                pauses.forward(number)
        else:
            number, code = _signal({*FORWARDED}, POLL_INTERVAL_S)
            if number and not _has_reached(pid, number, code, probe):
                _forward(pid, number)
        status = _reap(pid, probe)
        if status is not None:
            return status
        if client is not None and time.monotonic() - polled_at >= POLL_INTERVAL_S:
            polled_at = time.monotonic()
            client.poll()


def _signal(wanted: set[signal.Signals], limit_s: float) -> tuple[int, int | None]:
    """Wait for one of these signals or the end of a process; 0 for the latter, or for none.

    With its si_code, which macOS does not tell, as it has no wait with a time limit.
    """
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait({*wanted, signal.SIGCHLD}, limit_s)
        found = info is not None and info.si_signo in wanted
        return (info.si_signo, info.si_code) if info and found else (0, None)
    if not (signal.sigpending() & wanted):
        time.sleep(min(limit_s, PENDING_INTERVAL_S))
        return 0, None
    return signal.sigwait(wanted), None


def _has_reached(pid: int, number: int, code: int | None, probe: GroupSignalProbe) -> bool:
    """Tell whether a signal to this process has reached the command as well."""
    if code is None and number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
        return True  # a terminal sends Ctrl-C and Ctrl-\ to the whole foreground group
    closed = number == signal.SIGHUP and os.getsid(0) == os.getpid()
    if code == SI_KERNEL and not closed:
        probe.has(number)
        return True
    return _in_group(pid) and probe.has(number)


def _in_group(pid: int) -> bool:
    """Tell whether the command is in this process's group still, and gets its signals."""
    try:
        return os.getpgid(pid) == os.getpgrp()
    except OSError:
        return True


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


def _reap(pid: int, probe: GroupSignalProbe) -> Outcome | None:
    # Process 1 of a container inherits orphans; they are collected here too.
    found: Outcome | None = None
    while True:
        try:
            gone, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if gone == 0:
            return found
        probe.forget(gone)
        if gone == pid:
            found = _outcome(status)


def _outcome(status: int) -> Outcome:
    code = os.waitstatus_to_exitcode(status)
    return Outcome(SIGNAL_BASE - code, -code) if code < 0 else Outcome(code)
