"""The organisation's ledger of contracts for electricity, of which market-based figures are made.

An instrument is a volume of energy with a vintage, a zone, an issuer, a cancellation id and a
factor. The residual mix of a zone is a factor that an issuer publishes. Entries are added and
removed, never changed, and a cancellation counts once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.scope_2 import EMPTY, MONTH, YEAR, Contracts, InstrumentRow
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.service.access import audit
from gramwatt.service.common.cursors import cut, decode_cursor
from gramwatt.service.common.errors import CorrectionError, UnknownContractError
from gramwatt.service.container import Service
from gramwatt.service.store.contracts import LedgerEntry
from gramwatt.service.store.timestamps import text_from_us

Kind = Literal["instrument", "residual-mix"]
INSTRUMENT, RESIDUAL = KINDS = get_args(Kind)
COLUMNS = (
    *("kind", "zone", "vintage", "volume_mwh", "factor_g_per_kwh", "issuer", "cancellation_id"),
)
VINTAGE = r"(20|21)\d\d(-(0[1-9]|1[0-2])(-[0-3]\dT[0-2]\d)?)?"
"""A year, a month, or an hour in UTC."""
KWH_PER_MWH = 1000.0
VOLUME_MOST_MWH, FACTOR_MOST = 1e9, 5000.0
"""More than any organisation buys, and than any source emits [gCO2e/kWh]."""
TEXT_MOST = 256
_SAME = ("zone", "volume_kwh", "factor_g_per_kwh")


class NewContract(NamedTuple):
    """An entry to add; a residual mix has neither volume [MWh] nor cancellation id."""

    zone: str
    vintage: str
    factor_g_per_kwh: float
    issuer: str
    volume_mwh: float | None = None
    cancellation_id: str | None = None
    kind: Kind = "instrument"


class ContractRow(TypedDict):
    """An entry of the ledger."""

    id: int
    kind: Kind
    zone: str
    vintage: str
    volume_mwh: float | None
    factor_g_per_kwh: float
    issuer: str
    cancellation_id: str | None
    imported_at: str
    imported_by: str


class ContractsAnswer(TypedDict):
    """A page of the ledger, oldest entries first; `next_cursor` is null at the end."""

    contracts: list[ContractRow]
    next_cursor: str | None


class ContractsAdded(TypedDict):
    """What an import did: entries that are new, and those that the ledger had."""

    new: int
    known: int


def add_contracts(
    service: Service, rows: Sequence[tuple[str, NewContract]], *, by: str
) -> ContractsAdded:
    """Add entries, each beside where it was read: all or none; those that are known stay as is.

    Raises CorrectionError for one without a meaning, and for a cancellation that is in the ledger
    otherwise.
    """
    wanted = [(where, _checked(service, where, row)) for where, row in rows]

    def store(session: Session) -> int:
        found: dict[tuple[str, ...], Mapping[str, Any]] = {}
        new = 0
        for where, row in wanted:
            key = row["kind"], row["issuer"], row["reference"], row["vintage"]
            known = found.get(key) or _known(session, row)
            if known is None:
                session.add(LedgerEntry(**row, imported_us=service.now_us(), imported_by=by))
                new += 1
            elif any(known[name] != row[name] for name in _SAME):
                raise CorrectionError(where, _TWICE.format(**row))
            found[key] = row
        if new:
            audit.record(session, service, "contracts-added", f"{new} entries", by)
        return new

    new = service.for_every_project().store.transact(store)
    return {"new": new, "known": len(wanted) - new}


_TWICE = (
    "{reference} of {issuer}, {vintage}, is in the ledger with other figures: one energy counts "
    "once; remove that entry first (gramwatt contract rm ID)"
)


def _known(session: Session, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return zone and figures of the entry with the same key; None for none."""
    keys = ("kind", "issuer", "reference", "vintage")
    wanted = sa.select(LedgerEntry).where(*(getattr(LedgerEntry, n) == row[n] for n in keys))
    found = session.scalar(wanted)
    return None if found is None else {name: getattr(found, name) for name in _SAME}


def _checked(service: Service, where: str, row: NewContract) -> dict[str, Any]:
    """Return an entry as it is stored; raises CorrectionError."""

    def require(holds: object, field: str, text: str) -> None:
        if not holds:
            raise CorrectionError(f"{where}, {field}" if where else field, text)

    require(row.kind in KINDS, "kind", f"{row.kind!r}: write {' or '.join(KINDS)}")
    try:
        zone = service.catalog.zone(row.zone).zone
    except LookupFailed as error:
        raise CorrectionError(f"{where}, zone", error.message, close=error.close) from None
    require(
        _is_period(row.vintage),
        "vintage",
        f"{row.vintage!r}: write 2026, 2026-05, or the hour 2026-05-03T14 in UTC",
    )
    factor = row.factor_g_per_kwh
    require(0 <= factor <= FACTOR_MOST, "factor_g_per_kwh", f"0 to {FACTOR_MOST:g}, not {factor:g}")
    require(row.issuer.strip(), "issuer", "say who issued it")
    reference, volume = (row.cancellation_id or "").strip(), row.volume_mwh
    for field, text in (("issuer", row.issuer), ("cancellation_id", reference)):
        require(len(text) <= TEXT_MOST, field, f"has more than {TEXT_MOST} characters")
    if row.kind == RESIDUAL:
        require(len(row.vintage) == YEAR, "vintage", "a residual mix is of a year: write 2026")
        require(
            volume is None and not reference,
            "volume_mwh",
            "a residual mix has no volume and no cancellation id: leave both empty",
        )
        reference, volume = zone, 0.0
    else:
        require(
            reference,
            "cancellation_id",
            "an instrument counts once it is cancelled for you: give the id of its cancellation",
        )
        holds = volume is not None and 0 < volume <= VOLUME_MOST_MWH
        require(holds, "volume_mwh", f"above 0 and at most {VOLUME_MOST_MWH:g} MWh")
    return {
        "kind": row.kind,
        "zone": zone,
        "vintage": row.vintage,
        "year": int(row.vintage[:YEAR]),
        "issuer": row.issuer.strip(),
        "reference": reference,
        "volume_kwh": (volume or 0.0) * KWH_PER_MWH,
        "factor_g_per_kwh": float(factor),
    }


def _is_period(text: str) -> bool:
    """Return whether a text is a vintage: a year, a month, or an hour of a day that exists."""
    if not re.fullmatch(VINTAGE, text) or len(text) <= MONTH:
        return re.fullmatch(VINTAGE, text) is not None
    try:
        datetime.fromisoformat(f"{text}:00Z")
    except ValueError:
        return False
    return True


def read_csv(file: Path) -> list[tuple[str, NewContract]]:
    """Return the entries of a CSV file with their lines; raises CorrectionError or OSError."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        try:
            reader = csv.DictReader(stream, strict=True)
            header = list(reader.fieldnames or ())
            needed = [name for name in COLUMNS if name != "kind" and name not in header]
            unknown = [name for name in header if name not in COLUMNS]
            if needed or unknown:
                said = f"lacks {', '.join(needed)}" if needed else f"has {', '.join(unknown)}"
                raise CorrectionError("line 1", f"{said}; the columns are {', '.join(COLUMNS)}")
            return [(f"line {reader.line_num}", _read(reader.line_num, row)) for row in reader]
        except (UnicodeDecodeError, csv.Error) as error:
            raise CorrectionError(f"{file.name}", f"is no CSV in UTF-8: {error}") from None


def _read(line: int, row: Mapping[str, Any]) -> NewContract:
    texts = {name: (row.get(name) or "").strip() for name in COLUMNS}
    if None in row or None in row.values():
        raise CorrectionError(f"line {line}", f"has not {len(row)} cells")

    def number(name: str) -> float | None:
        try:
            return float(texts[name]) if texts[name] else None
        except ValueError:
            raise CorrectionError(f"line {line}, {name}", f"{texts[name]!r} is no number") from None

    factor = number("factor_g_per_kwh")
    if factor is None:
        raise CorrectionError(f"line {line}, factor_g_per_kwh", "is empty; 0 is written 0")
    return NewContract(
        zone=texts["zone"],
        vintage=texts["vintage"],
        factor_g_per_kwh=factor,
        issuer=texts["issuer"],
        volume_mwh=number("volume_mwh"),
        cancellation_id=texts["cancellation_id"] or None,
        kind=texts["kind"] or INSTRUMENT,  # type: ignore[arg-type]
    )


def contracts_page(service: Service, limit: int, cursor: str | None) -> ContractsAnswer:
    """Return a page of the ledger; raises CursorError."""
    wanted = sa.select(LedgerEntry).order_by(LedgerEntry.id).limit(limit + 1)
    if cursor:
        wanted = wanted.where(LedgerEntry.id > decode_cursor(cursor, int)[0])
    with service.for_every_project().store.read() as session:
        page, following = cut(session.scalars(wanted).all(), limit, lambda row: (row.id,))
        return {"contracts": [_shown(row) for row in page], "next_cursor": following}


def _shown(row: LedgerEntry) -> ContractRow:
    residual = row.kind == RESIDUAL
    return {
        "id": row.id,
        "kind": row.kind,  # type: ignore[typeddict-item]
        "zone": row.zone,
        "vintage": row.vintage,
        "volume_mwh": None if residual else row.volume_kwh / KWH_PER_MWH,
        "factor_g_per_kwh": row.factor_g_per_kwh,
        "issuer": row.issuer,
        "cancellation_id": None if residual else row.reference,
        "imported_at": text_from_us(row.imported_us),
        "imported_by": row.imported_by,
    }


def remove_contract(service: Service, entry: int, *, by: str) -> None:
    """Remove an entry of the ledger; raises UnknownContractError."""
    with service.for_every_project().store.write() as session:
        row = session.get(LedgerEntry, entry)
        if row is None:
            raise UnknownContractError(f"the ledger has no entry {entry}")
        about = f"{row.kind} {entry}: {row.reference} of {row.issuer}, {row.vintage}, {row.zone}"
        session.delete(row)
        audit.record(session, service, "contract-removed", about, by)


class Ledger:
    """The ledger as months need it."""

    def __init__(self, session: Session) -> None:
        """Read how many entries each year has, and nothing else of them yet."""
        self._session = session
        entry = LedgerEntry
        columns = (entry.kind, entry.year, sa.func.count(), sa.func.sum(entry.id))
        rows = session.execute(sa.select(*columns).group_by(entry.kind, entry.year))
        self._years = sorted((kind, year, count, int(ids)) for kind, year, count, ids in rows)
        of_year = sa.select(entry.year).where(
            entry.kind == INSTRUMENT, sa.func.length(entry.vintage) == YEAR
        )
        self.yearly = {f"{year}" for year in session.scalars(of_year.distinct())}
        """Years with instruments that one month leaves to the next."""

    def state(self, month: str) -> list[Any]:
        """Return what changes with the entries that a month's report is made of."""
        year = int(month[:YEAR])
        return [
            row for row in self._years if row[1] == year or (row[0] == RESIDUAL and row[1] < year)
        ]

    def of_month(self, month: str, used_kwh: Mapping[str, float]) -> Contracts:
        """Return the entries for a month; `used_kwh` is what earlier months took, by id."""
        if not self.state(month):
            return EMPTY
        entry, year = LedgerEntry, int(month[:YEAR])
        mine = sa.and_(
            entry.kind == INSTRUMENT,
            entry.year == year,
            sa.or_(entry.vintage == f"{year}", entry.vintage.startswith(month)),
        )
        mixes = sa.and_(entry.kind == RESIDUAL, entry.year <= year)
        wanted = sa.select(entry).where(sa.or_(mine, mixes)).order_by(entry.id)
        rows = self._session.scalars(wanted).all()
        instruments = [_instrument(row, used_kwh) for row in rows if row.kind == INSTRUMENT]
        return Contracts(
            instruments,
            [
                {
                    "zone": row.zone,
                    "vintage": row.vintage,
                    "issuer": row.issuer,
                    "factor_g_per_kwh": row.factor_g_per_kwh,
                }
                for row in rows
                if row.kind == RESIDUAL
            ],
        )


def _instrument(row: LedgerEntry, used_kwh: Mapping[str, float]) -> InstrumentRow:
    return {
        "id": row.id,
        "zone": row.zone,
        "vintage": row.vintage,
        "issuer": row.issuer,
        "cancellation_id": row.reference,
        "factor_g_per_kwh": row.factor_g_per_kwh,
        "volume_kwh": row.volume_kwh,
        "available_kwh": max(0.0, row.volume_kwh - used_kwh.get(f"{row.id}", 0.0)),
        "used_kwh": 0.0,
        "imported_at": text_from_us(row.imported_us),
        "imported_by": row.imported_by,
    }


def used_of_years(months: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return what months took of the instruments of their year [kWh], by id."""
    found: dict[str, float] = {}
    for of_month in months:
        for entry, kwh in of_month.items():
            found[entry] = found.get(entry, 0.0) + kwh
    return found
