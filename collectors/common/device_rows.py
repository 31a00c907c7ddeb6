"""The micro-benchmarks of this home: `calibration.jsonl`, one row a line, the newest last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.common.files import folder, opener, why
from gramwatt.sci.base.errors import GramwattError

if TYPE_CHECKING:
    from gramwatt.sci.advice.prediction.device_rows import DeviceRow
    from gramwatt.sci.catalog.catalog import Catalog

ROWS_FILE = "calibration.jsonl"
REAL_METER = "nvml"


def add_device_row(home: Path, row: DeviceRow) -> Path:
    """Add a row to the file of a home, and return the file. Raises OSError."""
    folder(home)
    path = home / ROWS_FILE
    with open(path, "a", encoding="utf-8", opener=opener) as stream:
        stream.write(json.dumps(row.to_doc()) + "\n")
    return path


def read_device_rows(
    home: Path, catalog: Catalog, *, synthetic: bool = False
) -> tuple[list[DeviceRow], list[str]]:
    """Return the rows of a home, and in sentences which lines cannot be used.

    Rows of a synthetic or replayed meter are of no hardware: only `synthetic` includes them.
    """
    from gramwatt.sci.advice.prediction.device_rows import parse_device_row

    path = home / ROWS_FILE
    rows, problems = [], []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return [], []
    except (OSError, ValueError) as error:
        return [], [f"{path} cannot be read and is ignored: {why(error)}"]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = parse_device_row(json.loads(line), catalog)
        except (ValueError, GramwattError) as error:
            problems.append(f"{path}, line {number} is ignored: {error}")
            continue
        if synthetic or row.meter == REAL_METER:
            rows.append(row)
    return rows, problems
