"""What processes have left in memory (collectors/track/counts.py)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gramwatt.collectors.settings.json_lines import encoded
from gramwatt.collectors.track import counts
from gramwatt.collectors.track.counts import JobFolder, Totals


def folders() -> list[Path]:
    """The folders of all jobs of this user that run, or have left something."""
    roots = [Path(place) / f"gramwatt-{os.geteuid()}" for place in counts.FOLDERS]
    inside = [path for root in roots if root.is_dir() for path in root.iterdir()]
    return [path for path in inside if path.is_dir()]  # a crashed library leaves a file there


def files_of(pid: int) -> list[str]:
    """The files of a process in any job's folder."""
    found = []
    for folder in folders():
        try:
            found += [name for name in os.listdir(folder) if name.startswith(f"{pid}-")]
        except OSError:
            continue
    return found


def file_of(folder: JobFolder, name: str, first: dict[str, Any]) -> Totals:
    """The file of a made-up process that enters a job."""
    totals = Totals(folder, name)
    assert totals._map()
    assert totals._enter(encoded(first))
    return totals
