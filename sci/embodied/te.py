"""TE, the embodied carbon of one thing, with what it covers and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.embodied_facts import Tier


@dataclass(frozen=True, slots=True)
class Embodied:
    """TE of one thing [gCO2e], the use phase excluded, with its data tier and what it covers.

    `includes_host` is true for the few published figures that already hold the host's share, so
    that adding a host on top would count it twice.
    """

    te_g: Quantity
    tier: Tier
    stages: str
    includes_host: bool = False
