"""Start gramwatt's processes (the meter, `gramwatt sync`) from the user's process.

Standard library only.
"""

from __future__ import annotations

import os
import sys

from gramwatt.collectors.common.json_lines import decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = b"gramwatt: "
"""Start of each line that gramwatt's commands write to standard error."""
_DETACHED = ("/bin/sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "gramwatt")
"""Begin of a command line that is detached from this process by a shell, so that os.wait() in the
user's code never sees a child it did not start, and no zombie is left."""


def package_environ() -> dict[str, str]:
    """Return this process's environment, with gramwatt on PYTHONPATH.

    A package folder that only sys.path knows (a script inserted it) goes on PYTHONPATH; an
    installed one needs nothing, and must not come before the standard library.
    """
    environ = dict(os.environ)
    environ.pop("PYTHONINSPECT", None)  # it would keep the new process at a prompt
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.basename(folder) not in ("site-packages", "dist-packages"):
        known = environ.get("PYTHONPATH", "")
        if folder not in known.split(os.pathsep):
            environ["PYTHONPATH"] = f"{known}{os.pathsep}{folder}" if known else folder
    return environ


def module_command(module: str) -> list[str]:
    """Return the command line that runs a module of gramwatt: no cwd on its path, no warnings.

    Raises OSError in an embedded interpreter that does not know its own executable.
    """
    if not sys.executable:
        raise OSError("this interpreter does not know its own executable")
    return [sys.executable, "-P", "-W", "ignore", "-m", module]


def spawn_meter(channel: int) -> None:
    """Start the meter with `channel`, a socket's descriptor, as its input and output.

    It gets its own session, so that no terminal signal reaches it. Raises OSError when no
    process can be started.
    """
    command = module_command("gramwatt.collectors.meter.main")
    try:
        shell = _spawn([*_DETACHED, *command], channel)
    except FileNotFoundError:  # an image without a shell: a direct child, then
        _spawn(command, channel)
        return
    try:
        os.waitpid(shell, 0)
    except ChildProcessError:  # the user's code ignores SIGCHLD or has collected it
        return


def _spawn(command: list[str], channel: int) -> int:
    # Not subprocess, which costs the training process 2 ms and 0.7 MB to import. Descriptors that
    # the user made inheritable come along; the meter closes them before anything else. Signals
    # that the caller has blocked are not blocked in the meter.
    streams = [
        (os.POSIX_SPAWN_DUP2, channel, 0),
        (os.POSIX_SPAWN_DUP2, channel, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    options: dict[str, Any] = {"file_actions": streams, "setsigmask": ()}
    environ = package_environ()
    try:
        return os.posix_spawn(command[0], command, environ, setsid=True, **options)
    except NotImplementedError:  # no POSIX_SPAWN_SETSID in this C library: a new group
        return os.posix_spawn(command[0], command, environ, setpgroup=0, **options)


def score_with_sync(
    job_id: str,
    timeout_s: float,
    settings: dict[str, str] | None = None,
    *,
    so_far: bool = False,
) -> tuple[dict[str, Any] | None, str | None]:
    """Score a job with `gramwatt sync`: its document, and the first problem that `sync` reports.

    With `so_far` a running one up to now. Each is None when it is not known within `timeout_s` [s].
    A slower `sync` goes on by itself, and its score is in the store later. `settings` are
    environment variables for it.
    """
    options = ["--quiet", "--summary-json", "-", *(["--so-far"] if so_far else [])]
    return _parse(_sync_output([*options, "--job", job_id], timeout_s, settings)[0])


def send_with_sync(
    job_id: str, timeout_s: float, settings: dict[str, str]
) -> tuple[bool, str | None]:
    """Send a job with `gramwatt sync`: whether its server has it, and the first problem.

    It asks for no score, which a key that may only send is not shown.
    """
    text, ended = _sync_output(["--job", job_id], timeout_s, settings)
    sent_before = ended and not text  # by another `gramwatt sync`
    return sent_before or f"sent {job_id}".encode() in text.splitlines(), _parse(text)[1]


def _sync_output(
    args: list[str], timeout_s: float, settings: dict[str, str] | None
) -> tuple[bytes, bool]:
    """Return what `gramwatt sync` prints within `timeout_s` [s], and whether that is all."""
    import subprocess

    try:
        command = [*module_command("gramwatt"), "sync", *args]
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,
            "env": {**package_environ(), **(settings or {})},
        }
        try:
            process = subprocess.Popen([*_DETACHED, *command], **options)
            process.wait()  # the shell only; nobody here has to collect a slow sync
        except FileNotFoundError:  # an image without a shell
            process = subprocess.Popen(command, **options)
        with process.stdout or open(os.devnull, "rb"):
            return process.communicate(timeout=timeout_s)[0], True
    except subprocess.TimeoutExpired as late:
        return late.output or b"", False
    except (OSError, ValueError):
        return b"", False


def _parse(text: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """Return the document and the first problem among the lines of `gramwatt sync`."""
    document, problem = None, None
    for line in text.splitlines():
        if line.startswith(PREFIX) and problem is None:
            problem = line.removeprefix(PREFIX).decode("utf-8", "replace")
        elif line.startswith(b"{"):
            document = decoded(line) or document  # one that is cut off is none: time was up
    return document, problem
