"""How a part is to be had: bought, bought used, only rented, or not at all outside its maker."""

from __future__ import annotations

from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.instances import Instance

CLOUD_ONLY = ("Google", "AWS", "Microsoft", "Meta")
"""Vendors whose data-centre parts cannot be bought."""
ONE_CLOUD = "AWS only"
"""What the catalog's form factor says of parts that another vendor makes for one cloud."""
IN_HOUSE = "internal"
"""What it says of parts that their vendor keeps for its own services."""


def in_house(part: Hardware) -> bool:
    """Whether nobody but its vendor can run anything on it."""
    return IN_HOUSE in part.form_factor


def rented_only(part: Hardware) -> bool:
    """Whether the part cannot be bought at all."""
    own = part.vendor in CLOUD_ONLY and "edge" not in part.intended_use
    return own or ONE_CLOUD in part.form_factor


def discontinued(part: Hardware) -> bool:
    """Whether the catalog knows that it is no longer sold new."""
    return part.status.startswith("legacy") or "out of production" in part.status


def had(catalog: Catalog, part: Hardware, *, placed: bool) -> list[str]:
    """Where a part stands that cannot be bought, and hosts that need other software.

    `placed` says that the provider is known, so that figures are those of its grid.
    """
    found = [one for one in catalog.all_instances() if one.hardware == part.id]
    told = [_rented(found, placed=placed)] if rented_only(part) else []
    hosts = {_host(catalog, one) for one in found}
    arm = [host for host in hosts if host and "Arm" in host]
    if arm and len(arm) == len(hosts):
        told.append(f"its host is {arm[0]}: the software must be built for Arm")
    elif "Grace" in part.form_factor:
        told.append("its host processor is NVIDIA Grace: the software must be built for Arm")
    return told


def whole_machines(catalog: Catalog, provider: str, part: Hardware, count: float) -> str | None:
    """A remark where the provider rents out more devices at once than the job takes."""
    found = [
        one
        for one in catalog.all_instances()
        if (one.provider, one.hardware) == (provider, part.id)
    ]
    least = min(found, key=lambda one: one.count or one.count_low or 1, default=None)
    devices = (least.count or least.count_low or 1) if least else 1
    if least is None or devices <= count:
        return None
    return (
        f"{provider} rents it out {devices} at a time ({least.id}): the figures hold where all of "
        "them are used"
    )


def _rented(found: list[Instance], *, placed: bool) -> str:
    if not found:
        return "only rented from its vendor; the catalog lists no instance with it"
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"not sold, only rented: {found[0].id}{more}"
    if placed:
        return text
    return (
        f"{text}. The figures take the present grid zone; name provider and region for those of "
        "its data centre"
    )


def _host(catalog: Catalog, instance: Instance) -> str | None:
    """Processor of the host with its architecture; None where not known."""
    try:
        architecture = catalog.cpu(instance.cpu).architecture if instance.cpu else ""
    except LookupFailed:
        architecture = ""
    return f"{instance.host_cpu} ({architecture})" if architecture else instance.host_cpu
