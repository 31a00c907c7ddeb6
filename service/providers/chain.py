"""The configured providers of a zone, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gramwatt.service.config import Account, IntensitySettings
from gramwatt.service.providers.base import SCORED
from gramwatt.service.providers.eia import Eia
from gramwatt.service.providers.electricity_maps import ElectricityMaps
from gramwatt.service.providers.energinet import Energinet
from gramwatt.service.providers.entsoe import Entsoe
from gramwatt.service.providers.http import Provider
from gramwatt.service.providers.uk import UkCarbonIntensity

_MAKERS: Mapping[str, Callable[[Account], Provider]] = {
    "electricity-maps": ElectricityMaps,
    "entsoe": Entsoe,
    "eia": Eia,
    "uk": UkCarbonIntensity,
    "energinet": Energinet,
}


def providers_of(settings: IntensitySettings, zone: str) -> Sequence[Provider]:
    """Return those of the zone's chain that publish something for it."""
    providers = (
        _MAKERS[name](settings.accounts.get(name, Account())) for name in settings.chain(zone)
    )
    return [provider for provider in providers if provider.kinds(zone)]


def is_live(settings: IntensitySettings, zone: str) -> bool:
    """Return whether a provider of the zone's chain publishes what scores use."""
    return any(
        (kind.signal, kind.basis) == SCORED
        for provider in providers_of(settings, zone)
        for kind in provider.kinds(zone)
    )
