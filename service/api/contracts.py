"""The organisation's ledger of contracts for electricity."""

from __future__ import annotations

from typing import TypedDict

from pydantic import Field

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import Page, Text, caller, service
from gramwatt.service.contracts import (
    FACTOR_MOST,
    TEXT_MOST,
    VINTAGE,
    VOLUME_MOST_MWH,
    ContractsAdded,
    ContractsAnswer,
    Kind,
    NewContract,
    add_contracts,
    contracts_page,
    remove_contract,
)

routes = Routes("contracts")


class ContractBody(Strict):
    """An instrument: cancelled energy of a year, a month or an hour (UTC), for use in a zone.

    Or, as `residual-mix`, the factor that an issuer publishes for a zone and year, without volume
    and cancellation id.
    """

    kind: Kind = "instrument"
    zone: Text
    vintage: str = Field(pattern=f"^{VINTAGE}$", description="2026, 2026-05 or 2026-05-03T14.")
    volume_mwh: float | None = Field(None, gt=0, le=VOLUME_MOST_MWH, allow_inf_nan=False)
    factor_g_per_kwh: float = Field(ge=0, le=FACTOR_MOST, allow_inf_nan=False)
    issuer: str = Field(min_length=1, max_length=TEXT_MOST, pattern=r"^[^\x00]+$")
    cancellation_id: str | None = Field(
        None, min_length=1, max_length=TEXT_MOST, pattern=r"^[^\x00]+$"
    )


class ContractsBody(Strict):
    """Entries to add: all of them, or none."""

    contracts: list[ContractBody] = Field(min_length=1, max_length=5000)


class EntryQuery(Strict):
    """The entry to remove."""

    id: int = Field(ge=1, le=2**53, description="Its number in the ledger.")


class RemovedContract(TypedDict):
    """The entry that was removed."""

    id: int


@routes.get("/v1/contracts", access=Access.ADMIN_ALL)
def list_contracts(query: Page) -> ContractsAnswer:
    """Return the ledger: instruments and residual mixes, in the order of their import."""
    return contracts_page(service(), query.limit, query.cursor)


@routes.post("/v1/contracts", access=Access.ADMIN_ALL)
def post_contracts(body: ContractsBody) -> ContractsAdded:
    """Add entries to the ledger; those that it has stay as they are.

    A cancellation id counts once for its issuer and vintage: with other figures it is refused.
    """
    rows = [
        (f"contracts.{number}", NewContract(**row.model_dump()))
        for number, row in enumerate(body.contracts)
    ]
    return add_contracts(service(), rows, by=caller().name)


@routes.delete("/v1/contracts", "unknown-contract", access=Access.ADMIN_ALL)
def delete_contract(query: EntryQuery) -> RemovedContract:
    """Remove an entry; reports of its months are restated without it."""
    remove_contract(service(), query.id, by=caller().name)
    return {"id": query.id}
