"""A node over thirty simulated days, with agents that are killed and stopped in turn."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.collectors.node.test_agent import days_with_restarts


def test_a_month_with_restarts_has_every_joule_once() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:  # ten thousand renames
        days_with_restarts(Path(folder), 30)
