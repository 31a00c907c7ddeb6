"""Start gramwatt's processes (the meter, `gramwatt sync`) from the user's process.

Standard library only.
"""

from __future__ import annotations

import os
import sys

from gramwatt.collectors.settings.json_lines import decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

if sys.platform != "win32":  # which imports this file too
    # Not those of `os`: gevent puts its own there, which wait for a child that has ended already.
    from posix import posix_spawn, waitpid

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
    folder = os.path.abspath(__file__).rsplit(os.sep, 4)[0]
    if os.path.basename(folder) not in ("site-packages", "dist-packages"):
        before = environ.get("PYTHONPATH", "")
        if folder not in before.split(os.pathsep):
            environ["PYTHONPATH"] = f"{before}{os.pathsep}{folder}" if before else folder
    return environ


def module_command(module: str) -> list[str]:
    """Return the command line that runs a module of gramwatt: no cwd on its path, no warnings.

    Raises OSError where there is no such interpreter: embedded in a program (uWSGI, an editor), or
    frozen into one, which would run once more.
    """
    name = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not ("py" in name or "ython" in name):  # Houdini's hython
        raise OSError("this program has no Python of its own; start it by `gramwatt run`")
    return [sys.executable, "-P", "-W", "ignore", "-m", module]


def spawn_meter(lock: int, folder: str) -> None:
    """Start the meter of the job with this folder in memory; it inherits the open `lock` as input.

    It gets its own session, so that no terminal signal reaches it. Raises OSError when no
    process can be started.
    """
    command = [*module_command("gramwatt.collectors.meter.main"), folder]
    try:
        shell = _spawn([*_DETACHED, *command], lock)
    except FileNotFoundError:  # an image without a shell: a direct child, then
        _spawn(command, lock)
        return
    try:
        waitpid(shell, 0)
    except ChildProcessError:  # the user's code ignores SIGCHLD or has collected it
        return


def _spawn(command: list[str], lock: int) -> int:
    # Not subprocess, which costs the training process 2 ms and 0.7 MB to import. Descriptors that
    # the user made inheritable come along; the meter closes them before anything else. Signals
    # that the caller has blocked are not blocked in the meter.
    streams = [
        (os.POSIX_SPAWN_DUP2, lock, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    options: dict[str, Any] = {"file_actions": streams, "setsigmask": ()}
    environ = package_environ()
    try:
        return posix_spawn(command[0], command, environ, setsid=True, **options)
    except NotImplementedError:  # no POSIX_SPAWN_SETSID in this C library: a new group
        return posix_spawn(command[0], command, environ, setpgroup=0, **options)


def ask_sync(
    what: str, job_id: str, timeout_s: float, settings: dict[str, str] | None = None
) -> dict[str, Any]:
    """Send or score a job in a process of its own, and return what that says of it.

    `what` is "sent", "document", or "so-far" for the document of a running job up to now. The
    answer has `document` and `problem`, which may be None, and `sent` (cli/sync.py); it is empty
    when there is none within `timeout_s` [s]. A slower process goes on by itself. `settings` are
    environment variables for it.
    """
    import subprocess

    try:
        command = [*module_command("gramwatt"), "sync", "--job", job_id, "--answer", what]
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
            "start_new_session": True,
            "env": {**package_environ(), **(settings or {})},
        }
        try:
            process = subprocess.Popen([*_DETACHED, *command], **options)
            process.wait()  # the shell only; nobody here has to collect a slow sync
        except FileNotFoundError:  # an image without a shell
            process = subprocess.Popen(command, **options)
        with process.stdout or open(os.devnull, "rb"):
            return decoded(process.communicate(timeout=timeout_s)[0])
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return {}
