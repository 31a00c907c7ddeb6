"""A command's processes: its group, paused and continued, and those it leaves running.

A group is paused with SIGSTOP and SIGCONT. Trackers of the job that have callbacks
(`track(on_pause=...)`) are asked first, by a file in a folder that only this user may enter, and
the group is stopped when all have answered. A small process outside the group continues it when
this process dies, so that no command stays stopped.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from gramwatt.collectors.cli.run.signals import spawn_shell
from gramwatt.collectors.common.launches import JOB_ID
from gramwatt.collectors.common.proc import environ_of, parent_of, process_exists, system_text
from gramwatt.collectors.tracking.pausing import CALLBACKS, FOLDER, PAUSED, REQUESTED

REAPERS = frozenset({"systemd", "init", "tini", "dumb-init"})
"""Names of processes that inherit orphans without being process 1, as `systemd --user` does."""
_GUARD = 'read line; rm -f "$1"; kill -CONT "-$2"'
"""The guard's input ends with this process."""


class PausableGroup:
    """The process group of a command, which leads a session of its own.

    In its own session its group is orphaned from the start, so that the kernel does not hang up a
    stopped one when this process dies (POSIX, `_exit`: consequences of process termination).
    """

    def __init__(self) -> None:
        self._folder: Path
        self._pid: int | None = None
        self._guard: int | None = None
        self._held = -1
        self._stopped = False

    def environment(self) -> dict[str, str]:
        """Return the variable by which the command's trackers find a request, in a new folder."""
        self._folder = Path(tempfile.mkdtemp(prefix="gramwatt-pause-"))
        return {FOLDER: str(self._folder)}

    def begin(self, pid: int) -> None:
        """Take the group that `pid` leads, and guard it."""
        self._pid = pid
        guard_input, self._held = os.pipe()
        words = _GUARD, "sh", str(self._request), str(pid)
        self._guard = spawn_shell(words, guard_input, setsid=True, setsigmask=())
        os.close(guard_input)

    def pause(self) -> bool:
        """Stop the group; False as long as a tracker has not come to where it may be stopped.

        Without a guard nothing is stopped: nobody would continue it.
        """
        if self._pid is None or self._guard is None:
            return False
        if waiting := self._trackers():
            self._request.touch()
            if any(not self._answered(name) for name in waiting):
                return False
        self._stopped = self.send(signal.SIGSTOP)
        return self._stopped

    def withdraw(self) -> None:
        """Ask no tracker for a pause any more."""
        self._request.unlink(missing_ok=True)

    def resume(self) -> None:
        """Continue the group, and the trackers in it."""
        self.withdraw()
        if self._stopped:
            self._stopped = False
            self.send(signal.SIGCONT)

    def send(self, number: int) -> bool:
        """Send the group a signal; False when there is none any more."""
        if self._pid is None:
            return False
        with suppress(OSError):
            os.killpg(self._pid, number)
            return True
        return False

    def end(self) -> None:
        """Continue what is left of the group, and end the guard."""
        self.resume()
        if self._guard is not None:
            with suppress(OSError):
                os.kill(self._guard, signal.SIGKILL)
                os.waitpid(self._guard, 0)
            os.close(self._held)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _request(self) -> Path:
        return self._folder / REQUESTED

    def _trackers(self) -> list[str]:
        """Return the process ids of the living trackers that have callbacks."""
        names = [path.name.removeprefix(CALLBACKS) for path in self._folder.glob(f"{CALLBACKS}*")]
        return [name for name in names if name.isdigit() and process_exists(int(name))]

    def _answered(self, name: str) -> bool:
        return (self._folder / f"{PAUSED}{name}").exists()


def orphans(job_id: str) -> list[str]:
    """Return the sorted names of this user's orphaned processes that have the job's id.

    Those of another rank of the job still have their parents. Empty where there is no /proc.
    """
    mark, found = f"{JOB_ID}={job_id}", []
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    for pid in pids:
        if pid == os.getpid() or mark not in environ_of(pid) or _is_ours(pid):
            continue
        parent = parent_of(pid)
        if parent == 1 or _name_of(parent) in REAPERS:
            found.append(_name_of(pid))
    return sorted(found)


def _is_ours(pid: int) -> bool:
    """Tell whether a meter or a command of gramwatt runs here: they inherit an exported id."""
    words = system_text(f"/proc/{pid}/cmdline").split("\0")
    return "-m" in words and any(word.startswith("gramwatt") for word in words)


def _name_of(pid: int) -> str:
    return system_text(f"/proc/{pid}/comm").strip()
