"""The configured providers of a zone, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gramwatt.service.config import SDK, Account, IntensitySettings
from gramwatt.service.providers.base import SCORED, Kind, Provider
from gramwatt.service.providers.carbon_aware_sdk import CarbonAwareSdk
from gramwatt.service.providers.eia import Eia
from gramwatt.service.providers.electricity_maps import ElectricityMaps
from gramwatt.service.providers.energinet import Energinet
from gramwatt.service.providers.entsoe import Entsoe
from gramwatt.service.providers.uk import UkCarbonIntensity
from gramwatt.service.providers.watttime import WattTime

_MAKERS: Mapping[str, Callable[[IntensitySettings, Account], Provider]] = {
    "electricity-maps": lambda _, account: ElectricityMaps(account),
    "entsoe": lambda _, account: Entsoe(account),
    "eia": lambda _, account: Eia(account),
    "watttime": lambda all_, account: WattTime(account, all_.watttime_regions),
    "uk": lambda _, account: UkCarbonIntensity(account),
    "energinet": lambda _, account: Energinet(account),
    SDK: lambda all_, account: CarbonAwareSdk(account, all_.sdk_locations, _sdk_kind(all_)),
}


def providers_of(settings: IntensitySettings, zone: str) -> Sequence[Provider]:
    """Return those of the zone's chain that publish something for it."""
    made = (
        _MAKERS[name](settings, settings.accounts.get(name, Account()))
        for name in settings.chain(zone)
    )
    return [provider for provider in made if provider.kinds(zone)]


def is_live(settings: IntensitySettings, zone: str) -> bool:
    """Return whether a provider of the zone's chain publishes what scores use."""
    return any(
        (kind.signal, kind.basis) == SCORED
        for provider in providers_of(settings, zone)
        for kind in provider.kinds(zone)
    )


def _sdk_kind(settings: IntensitySettings) -> Kind:
    signal, basis = settings.sdk_kind or SCORED
    return Kind(signal, basis, "consumption")  # type: ignore[arg-type]  # checked when it was read
