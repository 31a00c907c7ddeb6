"""The commands `gramwatt slurm ...`: scripts that measure every job of a node, and what they start.

Prolog begins `gramwatt run -- gramwatt slurm hold FOLDER` as root, outside of the job; `hold` waits
until Epilog has written how the job ended. Nothing here is part of the job: docs/slurm.md.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.exit_codes import USAGE
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.settings.proc import process_start_ns
from gramwatt.collectors.track.client import Client
from gramwatt.collectors.track.counts import clock_ns
from gramwatt.collectors.track.messages import print_message

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX, RUNS = Path("/etc/gramwatt/slurm"), "/run/gramwatt-slurm"
POLL_S = 1.0
EMPTY_MOST_S = 6 * 3600.0
"""A job without any step on this node for so long [s] has ended, though Epilog did not say so. An
allocation may stand idle between its steps, so it is no shorter."""
NAMES_MOST_B = 4096
"""How much is read of the file that a job's user may write [B]."""
NAMES = {
    "SLURM_ARRAY_JOB_ID": "array_job",
    "SLURM_ARRAY_TASK_ID": "array_task",
    "SLURM_JOB_ACCOUNT": "slurm_account",
    "SLURM_JOB_NAME": "slurm_name",
    "SLURM_JOB_ID_HET_GROUP_0": "slurm_het",
}
"""What only a task's environment knows of its job, and the tag that it becomes."""
PROJECTS = "GRAMWATT_PROJECTS"
_STEP = re.compile(rb"slurmstepd\S*: \[(\d+)\.([\w+]+)\]")
_NAMES_LINE = re.compile(r"([A-Z0-9_]+)=([\x20-\x7e]{1,256})")

PROLOG = """\
#!/bin/sh
# Prolog: begins to measure a job on this node, as root and outside of the job. It returns at
# once, always with 0, so no job waits for it and no node is drained. docs/slurm.md
folder=@RUNS@/$SLURM_JOB_ID.${SLURM_JOB_RESTART_COUNT:-0}
(
    umask 022
    export folder
    rm -rf "$folder"
    mkdir -p "$folder" && mkdir -m 700 "$folder/names" && chown "$SLURM_JOB_UID" "$folder/names"
    set -a
    [ -r @SETTINGS@ ] && . @SETTINGS@
    GRAMWATT_HOME=${GRAMWATT_HOME:-/var/lib/gramwatt}
    GRAMWATT_JOB_ID=slurm-${SLURM_CLUSTER_NAME:-cluster}-$SLURM_JOB_ID
    GRAMWATT_REPORTER=node
    SLURM_JOB_GPUS=${SLURM_JOB_GPUS:-none}  # exactly the job's devices
    SLURM_RESTART_COUNT=${SLURM_JOB_RESTART_COUNT:-0}
    unset CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL NVIDIA_VISIBLE_DEVICES
    gramwatt=@GRAMWATT@
    # A session of its own before Slurm ends what the script has left in its group.
    cd / && setsid sh -c '"$gramwatt" run --name "slurm $SLURM_JOB_ID" -- \\
        "$gramwatt" slurm hold "$folder" 2>>"$folder/log" &'
) </dev/null >/dev/null 2>&1
exit 0
"""
EPILOG = """\
#!/bin/sh
# Epilog: tells the meter of a job on this node how the job ended; at once, always with 0.
for folder in @RUNS@/"$SLURM_JOB_ID".*; do
    [ -d "$folder" ] && printf '%s\\n' "${SLURM_JOB_EXIT_CODE2:-}" >"$folder/.end" &&
        mv "$folder/.end" "$folder/end"
done 2>/dev/null
exit 0
"""
TASK_PROLOG = """\
#!/bin/sh
# TaskProlog: once a step and node it notes what only a task knows: array, account, name. It runs
# as the job's user, prints nothing, so that it sets no variable, and always returns 0.
folder=@RUNS@/$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}/names
[ "${SLURM_LOCALID:-0}" = 0 ] && [ -w "$folder" ] && {
    for name in @NAMES@; do
        eval "value=\\${$name-}"
        [ -z "$value" ] || printf '%s=%s\\n' "$name" "$value"
    done >"$folder/.$$" && mv "$folder/.$$" "$folder/names"
} 2>/dev/null
exit 0
"""
SETTINGS = """\
# Settings of the meters that Prolog starts: shell, read by root, any GRAMWATT_ variable.
# GRAMWATT_SERVER=https://gramwatt.example
# GRAMWATT_API_KEY=...        one key of all projects
# GRAMWATT_ZONE=DE
# GRAMWATT_PROJECTS=account:bio=genomics,account:vision=vision
"""
CONF = """\
# In slurm.conf. Where it has a Prolog, Epilog or TaskProlog, call these scripts from them.
PrologFlags=Alloc
Prolog=@PREFIX@/prolog
Epilog=@PREFIX@/epilog
TaskProlog=@PREFIX@/taskprolog
"""


def install(
    prefix: Annotated[
        Path, typer.Option(help="Folder for the scripts, alike on all nodes.")
    ] = PREFIX,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print them, write nothing.")] = False,
) -> None:
    """Write Prolog, Epilog and TaskProlog scripts that measure each job once a node.

    No script fails a job or drains a node. slurm.conf is left alone: its lines are printed.
    """
    prefix = prefix.absolute()  # Slurm reads it elsewhere
    files = {name: (text, 0o755) for name, text in scripts(prefix).items()}
    if not (prefix / "settings").exists():  # it has the key, so that nobody else may read it
        files["settings"] = (SETTINGS, 0o600)
    for name, (text, mode) in files.items():
        if dry_run:
            print(f"# {prefix / name}\n{text}")
            continue
        try:
            prefix.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(prefix / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            (prefix / name).chmod(mode)
        except OSError as error:
            print_message(f"cannot write {prefix / name}: {why(error)}; choose a --prefix")
            raise typer.Exit(USAGE) from None
        print(f"wrote {prefix / name}")
    print(CONF.replace("@PREFIX@", str(prefix)), end="")


def scripts(prefix: Path) -> dict[str, str]:
    """Return the scripts by name, with the paths of this installation."""
    command = shutil.which(sys.argv[0]) or shutil.which("gramwatt") or sys.argv[0]
    words = {
        "@RUNS@": RUNS,
        "@SETTINGS@": quote(str(prefix / "settings")),
        "@GRAMWATT@": quote(os.path.abspath(command)),
        "@NAMES@": " ".join(NAMES),
    }
    texts = {"prolog": PROLOG, "epilog": EPILOG, "taskprolog": TASK_PROLOG}
    for name, text in texts.items():
        for word, value in words.items():
            text = text.replace(word, value)
        texts[name] = text
    return texts


def hold(folder: Path) -> None:
    """Wait until Epilog says how the job ended, and make its steps and attempt windows of it.

    A job that Epilog says nothing of ends EMPTY_MOST_S after its last step, with a notice.
    """
    environ = os.environ
    slurm_job, attempt = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_RESTART_COUNT", "0")
    client, began_ns = Client.find(os.getppid()), _began_ns(os.getppid())
    steps: dict[str, int] = {}
    others: dict[str, int] = {}
    named = False
    end, seen_s = folder / "end", time.monotonic()
    while folder.is_dir() and not end.exists():
        running = running_steps(slurm_job, others)
        if running:
            seen_s = time.monotonic()
        elif time.monotonic() - seen_s > EMPTY_MOST_S:
            text = f"Epilog has not said how it ended; no step for {EMPTY_MOST_S / 3600:g} h"
            print_message(f"slurm job {slurm_job}: {text}")
            if client is not None:
                client.send_notice("end-unseen", f"{text}.")
            break
        running.pop("extern", None)
        for step in running.keys() - steps.keys():
            steps[step] = _began_ns(running[step])
        for step in steps.keys() - running.keys():
            _leave(client, f"step {step}", steps.pop(step))
        if not named and (names := read_names(folder / "names" / "names")):
            named = True
            _send(client, slurm_job, names)
        time.sleep(POLL_S)
    if not named:
        _send(client, slurm_job, read_names(folder / "names" / "names"))
    for step, start_ns in steps.items():
        _leave(client, f"step {step}", start_ns)
    _leave(client, f"attempt {attempt}", began_ns)
    code = 0
    with suppress(OSError):
        code = exit_code(end.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(code)


def running_steps(
    slurm_job: str, others: dict[str, int], proc: Path = Path("/proc")
) -> dict[str, int]:
    """Return the steps of a job that run on this node with their slurmstepd, found by its title.

    `others` keeps in how many looks a process was none: after two it is not read again, since a
    node may have thousands.
    """
    steps: dict[str, int] = {}
    present = [name for name in os.listdir(proc) if name.isdecimal()]
    for gone in others.keys() - present:
        del others[gone]
    for name in present:
        if others.get(name, 0) < 2:
            others[name] = others.get(name, 0) + 1
            with suppress(OSError):
                title = _STEP.match((proc / name / "cmdline").read_bytes())
                if title and title[1].decode() == slurm_job:
                    steps[title[2].decode()] = min(int(name), steps.get(title[2].decode(), 2**31))
                    others[name] = 0
    return steps


def _began_ns(pid: int) -> int:
    """Return when a process began, by the clock of marks [ns]; now where it has ended."""
    return process_start_ns(pid) or clock_ns()


def read_names(path: Path) -> dict[str, str]:
    """Return what TaskProlog noted, by tag; its writer is the job's user, and is not trusted."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return {}
        text = stream.read(NAMES_MOST_B).decode("utf-8", "replace")
    lines = (match for line in text.splitlines() if (match := _NAMES_LINE.fullmatch(line)))
    return {NAMES[match[1]]: match[2] for match in lines if match[1] in NAMES}


def project_of_account(environ: Mapping[str, str], account: str | None) -> str | None:
    """Return an account's project by the setting GRAMWATT_PROJECTS; None where it has none.

    Its text is a list such as `account:bio=genomics,account:vision=vision`; entries of another form
    are left out.
    """
    entries = (entry.strip().partition("=") for entry in environ.get(PROJECTS, "").split(","))
    projects = {source: project for source, _, project in entries if project}
    return projects.get(f"account:{account}")


def exit_code(text: str) -> int:
    """Return the exit code out of Slurm's "code:signal"; 128 and the signal for a killed job."""
    code, _, signal = text.strip().partition(":")
    if signal.isdecimal() and int(signal):
        return 128 + int(signal) % 128
    return int(code) % 256 if code.isdecimal() else 0


def _send(client: Client | None, slurm_job: str, names: dict[str, str]) -> None:
    """Send the job's tags, and the project of its account."""
    array = names.pop("array_job", None), names.pop("array_task", None)
    tags = {**names, "slurm": "_".join(map(str, array)) if all(array) else slurm_job}
    project = project_of_account(os.environ, tags.get("slurm_account"))
    if client is not None:
        client.send_settings({"tags": tags, **({"project": project} if project else {})})


def _leave(client: Client | None, name: str, start_ns: int) -> None:
    if client is not None:
        client.leave_window(name, start_ns, {})


app = typer.Typer(no_args_is_help=True, help="Measure every job of a Slurm cluster's nodes.")
app.command()(install)
app.command(hidden=True)(hold)
