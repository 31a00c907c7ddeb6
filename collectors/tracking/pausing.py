"""The training process's side of `gramwatt run --pause-above`: `track(on_pause=, on_resume=)`.

A pause is a file in the folder that the environment names. It is looked for where the job counts,
so that the callbacks run between two steps, in the job's own thread. Standard library only.
"""

from __future__ import annotations

import os
import time

from gramwatt.collectors.tracking.messages import print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "GRAMWATT_PAUSES"
REQUESTED, CALLBACKS, PAUSED = "requested", "callbacks.", "paused."
"""Names in the folder: a pause is asked for; this process has callbacks; it waits to be stopped.
The latter two end in the process's id."""
LOOK_S = 0.1


class PausePoint:
    """Where a job may be paused: after `on_pause` has returned, until the pause ends."""

    def __init__(
        self,
        folder: str,
        on_pause: Callable[[], object] | None,
        on_resume: Callable[[], object] | None,
    ) -> None:
        self._request = os.path.join(folder, REQUESTED)
        self._paused = os.path.join(folder, f"{PAUSED}{os.getpid()}")
        self._announced = os.path.join(folder, f"{CALLBACKS}{os.getpid()}")
        self._on_pause, self._on_resume = on_pause, on_resume
        self._pid = os.getpid()
        self._refused = False
        _create(self._announced)

    def check(self) -> None:
        """Call the callbacks around a pause, if one is asked for; a forked child has none."""
        if not os.path.exists(self._request):
            self._refused = False
            return
        if self._refused or os.getpid() != self._pid:
            return
        if not _called(self._on_pause, "on_pause"):
            self._refused = True  # until the next pause
            return
        _create(self._paused)
        while os.path.exists(self._request):
            time.sleep(LOOK_S)
        _remove(self._paused)
        _called(self._on_resume, "on_resume")

    def close(self) -> None:
        """Take the job's callbacks back: it has ended."""
        if os.getpid() == self._pid:
            _remove(self._paused)
            _remove(self._announced)


def _called(callback: Callable[[], object] | None, name: str) -> bool:
    try:
        if callback is not None:
            callback()
    except Exception as error:
        then = "; the job is not paused" if name == "on_pause" else ""
        print_message(f"{name} failed ({error!r}){then}")
        return False
    return True


def _create(path: str) -> None:
    try:
        with open(path, "w"):
            pass
    except OSError:
        pass


def _remove(path: str) -> None:
    try:  # contextlib is not loaded in training processes yet
        os.unlink(path)
    except OSError:
        return
