"""How a part is available: bought, bought used, only rented, or not at all outside its maker."""

from __future__ import annotations

from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.instances import SLICED, Instance


def rented_only(part: Hardware) -> bool:
    """Tell whether the part cannot be bought at all."""
    return part.availability != "sold"


def discontinued(part: Hardware) -> bool:
    """Tell whether the catalog knows that it is no longer sold new."""
    return part.market in ("legacy", "out-of-production")


def offered_parts(catalog: Catalog, provider: str | None) -> frozenset[str] | None:
    """Return the parts in the provider's instances of the catalog; None where it lists none."""
    if provider is None:
        return None
    found = frozenset(one.hardware for one in _instances(catalog, provider=provider))
    return found | SLICED if provider == "gcp" else found or None


def availability_notes(catalog: Catalog, part: Hardware, *, provider_known: bool) -> list[str]:
    """Return notes on parts that can only be rented, and on hosts that need software built for Arm.

    `provider_known` says that a provider is named, so that figures are those of its grid.
    """
    instances = _instances(catalog, part=part)
    notes = [_rented(part, instances, provider_known=provider_known)] if rented_only(part) else []
    hosts = [catalog.cpu_of(instance) for instance in instances]
    if hosts and all(host and host.isa == "arm64" for host in hosts):
        text = f"{instances[0].host_cpu} ({hosts[0].architecture if hosts[0] else ''})"
        notes.append(f"its host is {text}: the software must be built for Arm")
    elif part.host_cpu and (own := catalog.cpu(part.host_cpu)).isa == "arm64":
        notes.append(
            f"its host processor is {own.vendor} {own.name}: the software must be built for Arm"
        )
    return notes


def rental_notes(catalog: Catalog, provider: str, part: Hardware, count: float) -> list[str]:
    """Return the provider's list price, and a note where it rents out more than the job takes."""
    instances = _instances(catalog, provider=provider, part=part)
    notes = [_price(instances), _whole_machines(instances, provider, count)]
    return [note for note in notes if note]


def _instances(
    catalog: Catalog, *, provider: str | None = None, part: Hardware | None = None
) -> list[Instance]:
    return [
        instance
        for instance in catalog.all_instances()
        if part is None or instance.hardware == part.id
        if provider is None or instance.provider == provider
    ]


def _price(instances: list[Instance]) -> str | None:
    """Return the cheapest dated list price of a whole device, as a sentence."""
    prices = [
        (one.price_usd_per_hour / one.count, one)
        for one in instances
        if one.price_usd_per_hour and one.count and one.share == 1
    ]
    if not prices:
        return None
    dollars, cheapest = min(prices, key=lambda price: price[0])
    where = f"{cheapest.id}, {cheapest.price_region}, {cheapest.price_date}"
    return f"list price: {dollars:.2f} USD/h a device on demand ({where})"


def smallest_rental(catalog: Catalog, provider: str | None, part: Hardware) -> float | None:
    """Return the devices of the smallest instance with the part; None without any."""
    return min(map(_devices, _instances(catalog, provider=provider, part=part)), default=None)


def _devices(instance: Instance) -> float:
    return instance.count or instance.count_low or 1


def _whole_machines(instances: list[Instance], provider: str, count: float) -> str | None:
    smallest = min(instances, key=_devices, default=None)
    if smallest is None or _devices(smallest) <= count:
        return None
    return (
        f"{provider} rents it out {_devices(smallest)} at a time ({smallest.id}): rented, the "
        "embodied carbon and idle power of the unused ones count too"
    )


def _rented(part: Hardware, instances: list[Instance], *, provider_known: bool) -> str:
    if part.id in SLICED and not instances:
        return "not sold, only rented from gcp, in slices"
    if not instances:
        return "only rented from its vendor; the catalog lists no instance with it"
    more = f" and {len(instances) - 1} more" if len(instances) > 1 else ""
    text = f"not sold, only rented: {instances[0].id}{more}"
    if provider_known:
        return text
    return (
        f"{text}. The figures take the present grid zone; name provider and region for those of "
        "its data centre"
    )
