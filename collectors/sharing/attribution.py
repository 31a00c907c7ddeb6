"""Who pays which part of a shared board: a pure function whose parts add up to the whole.

The dynamic part of the energy, above what the board draws idle, goes by use (share of the
streaming multiprocessors' time), the idle part by what is reserved. What nobody has reserved or
used is nobody's: it stays unallocated instead of being spread over those who happen to be there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Tenant(NamedTuple):
    """One user of a board: use [any unit, the same for all], None where the driver does not tell,
    and the reserved part (0 to 1), None where nothing says how much.
    """

    name: str
    use: float | None = None
    reserved: float | None = None


class Split(NamedTuple):
    """Joules by tenant, and those that are nobody's; together exactly the whole."""

    energy_j: dict[str, float]
    unallocated_j: float


class Shares(NamedTuple):
    """One tenant's parts (0 to 1) of the dynamic and of the idle energy."""

    dynamic: float
    idle: float


WHOLE = Shares(1.0, 1.0)
NOTHING = Shares(0.0, 0.0)


def shares(tenants: Sequence[Tenant]) -> dict[str, Shares]:
    """Every tenant's parts; each sum is at most 1, and the rest is unallocated.

    Idle energy goes by reserved parts, or evenly where any of them is unknown. Dynamic energy goes
    by use; where none was used or nobody knows, as the idle energy does.
    """
    idle = _reserved(tenants)
    used = {tenant.name: tenant.use or 0.0 for tenant in tenants}
    all_used = math.fsum(used.values())
    return {
        name: Shares(used[name] / all_used if all_used > 0 else idle[name], idle[name])
        for name in used
    }


def part_j(energy_j: float, idle_j: float, part: Shares) -> float:
    """The joules of `energy_j` that fall to a tenant, when `idle_j` of them are idle energy."""
    idle_j = min(max(idle_j, 0.0), energy_j)
    return (energy_j - idle_j) * part.dynamic + idle_j * part.idle


def split(energy_j: float, idle_j: float, tenants: Sequence[Tenant]) -> Split:
    """A measured energy [J] over tenants of distinct names, of which `idle_j` [J] is idle."""
    parts = {name: part_j(energy_j, idle_j, part) for name, part in shares(tenants).items()}
    return Split(parts, energy_j - math.fsum(parts.values()))


def _reserved(tenants: Sequence[Tenant]) -> dict[str, float]:
    known = [tenant.reserved for tenant in tenants if tenant.reserved is not None]
    if len(known) < len(tenants):
        return {tenant.name: 1 / len(tenants) for tenant in tenants}
    over = max(1.0, math.fsum(known))  # more may be promised than there is
    return {tenant.name: (tenant.reserved or 0.0) / over for tenant in tenants}
