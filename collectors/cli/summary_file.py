"""The file that a job's document is written to: `run --json-summary`, `sync --summary-json`."""

from __future__ import annotations

from pathlib import Path

from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.common.files import whole_file, why


def write_summary(path: Path, text: str, elsewhere: str) -> bool:
    """Write a file in one step, so that no reader finds half of it; says why where it cannot."""
    try:
        with whole_file(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        print_message(f"cannot write {path}: {why(error)}; see `{elsewhere}`")
        return False
    return True
