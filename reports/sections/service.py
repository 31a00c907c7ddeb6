"""A service: energy and carbon per request and token, what they were for, by day and by hour."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Heading, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.base.document import ServiceDoc, ServiceRowDoc
from gramwatt.sci.base.formatting import UNKNOWN, count_text, percent
from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.journal.records import parse_time

SHOWN_DAYS, SHOWN_HOURS = 7, 24
PARTS = {
    "prefill": "Prefill (prompt tokens computed)",
    "decode": "Decode (tokens generated)",
    "work": "Requests (not split)",
    "idle": "Idle (no request)",
}
EXPLAINED = (
    "Counted by the server itself. A token of R is a prompt token that the server computed or a "
    "token that it generated; cached prompt tokens are not in R. Prefill and decode are divided in "
    "proportion to the times of requests, which overlap in a batch: hence their wide ranges."
)


def service_blocks(service: ServiceDoc | None, *, full: bool = False) -> list[Block]:
    """Return the tables of a service; none for a job that is no service.

    Of days the newest week, and hours of a service that is younger than that; with `full` all that
    the document has.
    """
    if service is None:
        return []
    total = service.total
    blocks: list[Block] = [Heading("The service"), Text(f"{EXPLAINED} {_known(total)}")]
    if total.energy_j_per_unit:
        blocks.append(_per_unit(total))
    blocks.append(_parts(total))
    days, hours = service.days, service.hours
    blocks.append(_over_time("By day", "Day", days if full else days[-SHOWN_DAYS:], len(days)))
    if len(hours) > 1 and (full or len(days) <= SHOWN_DAYS):
        some = hours if full else hours[-SHOWN_HOURS:]
        blocks.append(_over_time("By hour (UTC)", "Hour", some, len(hours)))
    return blocks


def _known(row: ServiceRowDoc) -> str:
    length_s = (parse_time(row.end) - parse_time(row.start)).total_seconds()
    known = percent(min(1.0, row.known_s / length_s)) if length_s else UNKNOWN
    cached = count_text(row.cached_tokens)
    return f"Its counters are known for {known} of the time; {cached} prompt tokens were cached."


def _per_unit(row: ServiceRowDoc) -> Table:
    columns = (
        Column("Per", weight=1.0),
        Column("Count", "right", 1.0),
        Column("Energy", "right", 1.4),
        Column("Carbon", "right", 1.4),
    )
    rows = tuple(
        (unit, count_text(row.counts[unit]), cell(energy), cell(row.total_g_per_unit[unit]))
        for unit, energy in row.energy_j_per_unit.items()
    )
    return Table("Per request and token, idle time included", columns, rows)


def _parts(row: ServiceRowDoc) -> Table:
    columns = (
        Column("For", weight=1.6),
        Column("Energy", "right", 1.3),
        Column("Carbon", "right", 1.3),
        Column("Energy per token", "right", 1.3),
        Column("Known by", weight=1.8),
    )
    rows: list[tuple[Cell, ...]] = []
    for part in row.parts:
        energy, per_token = part.energy_j, part.energy_j_per_token
        how = f"{energy['kind']}: {energy['source']}" if energy else UNKNOWN
        each = cell(per_token) if per_token else ""
        rows.append((PARTS[part.part], cell(kwh(energy)), cell(part.total_g), each, how))
    note = "The parts add up to the energy of all devices of the job."
    return Table("What the energy was for", columns, tuple(rows), note)


def _over_time(caption: str, first: str, rows: Sequence[ServiceRowDoc], of: int) -> Table:
    columns = (
        Column(first, weight=1.3),
        Column("Requests", "right", 0.9),
        Column("Tokens", "right", 0.9),
        Column("Energy", "right", 1.2),
        Column("Idle", "right", 0.7),
        Column("Carbon", "right", 1.2),
        Column("Energy per token", "right", 1.2),
    )
    left = of - len(rows)
    note = f"The newest {len(rows)} of {of}; the job's JSON has all." if left else ""
    return Table(f"{caption}", columns, tuple(_line(row) for row in reversed(rows)), note)


def _line(row: ServiceRowDoc) -> tuple[Cell, ...]:
    name = row.day or f"{row.start[:10]} {row.start[11:16]}"
    counts = [row.counts.get(unit) for unit in ("request", "token")]
    per_token = row.energy_j_per_unit.get("token")
    return (
        name if row.closed else f"{name}, so far",
        *(count_text(count) if count else "" for count in counts),
        cell(kwh(row.energy_j)),
        _idle(row),
        cell(row.total_g),
        cell(per_token) if per_token else "",
    )


def kwh(joules: QuantityDoc | None) -> QuantityDoc | None:
    """Return a figure in joules in kWh."""
    return Quantity.from_doc(joules).scaled(1 / J_PER_KWH, "kWh").to_doc() if joules else None


def _idle(row: ServiceRowDoc) -> str:
    idle = next((part.energy_j for part in row.parts if part.part == "idle"), None)
    whole = row.energy_j
    return percent(idle["value"] / whole["value"]) if idle and whole and whole["value"] else ""
