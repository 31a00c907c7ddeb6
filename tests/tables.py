"""The tables of a month as a zip of CSV files, read back."""

from __future__ import annotations

import csv
import io
import zipfile


def tables_of(content: bytes) -> dict[str, list[dict[str, str]]]:
    """The rows of each table by its name; a cell is a text, "" where it is empty."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {
            name.removesuffix(".csv"): list(
                csv.DictReader(io.StringIO(archive.read(name).decode(), newline=""))
            )
            for name in archive.namelist()
        }


def month_of_tables(tables: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    """The value of each figure of the month, and "Energy low" and the like of its other cells."""
    values: dict[str, str] = {}
    for row in tables["month"]:
        values[row["Figure"]] = row["Value"]
        for name in ("Low", "High", "Unit", "Kind"):
            values[f"{row['Figure']} {name.lower()}"] = row[name]
    return values
