"""The meter's own small log file, for finding faults; never the job's output."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gramwatt.collectors.common import files
from gramwatt.collectors.common.clock import NS_PER_S, Clock

LIMIT_B = 1_000_000


class Log:
    """Appends lines to a file that starts over at 1 MB; silent where it cannot be written."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def write(self, text: str) -> None:
        """Append one line with the time and this process's id."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall_ns() / NS_PER_S))
        line = f"{stamp} {os.getpid()} {text}\n"
        try:
            files.folder(self._path.parent)
            mode = "w" if self._path.exists() and self._path.stat().st_size > LIMIT_B else "a"
            with open(
                self._path, mode, encoding="utf-8", errors="replace", opener=files.opener
            ) as stream:
                stream.write(line)
        except OSError:  # a full or read-only disk has no place for a line
            return
