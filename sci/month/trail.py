"""The shapes of a month's trail: deleted jobs and factors."""

from __future__ import annotations

from msgspec import Struct

from gramwatt.sci.figures.quantity import Quantity


class DeletedRow(Struct):
    """A deleted job of a month: what it had added [gCO2e], when, by whom and why it went."""

    job_id: str
    project: str
    total_g: Quantity | None
    deleted_at: str
    deleted_by: str
    reason: str | None


class FactorFileDoc(Struct):
    """A file of grid intensity that was imported: what it is, and who imported it when."""

    name: str
    sha256: str
    publisher: str | None
    licence: str | None
    link: str | None
    imported_by: str
    imported_at: str


class FactorRow(Struct):
    """An emission factor of the month: energy [kWh] x PUE x factor [gCO2e/kWh] = O [gCO2e].

    `quality` says how the factor is known, `source` names it; `series` is the key of its publisher
    and method, the same for all editions; `files` are those that an imported
    factor came in. Null stands for a publisher that is not known any more.
    """

    zone: str
    jobs: int
    energy_kwh: Quantity
    pue: Quantity
    factor_g_per_kwh: Quantity
    operational_g: Quantity
    quality: str
    series: str
    source: str
    publisher: str | None
    edition: str | None
    licence: str | None
    link: str | None
    files: list[FactorFileDoc]
