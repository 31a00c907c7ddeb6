"""TE, the embodied carbon of a device or host, with its stages and data tier."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.embodied_facts import Tier


@dataclass(frozen=True, slots=True)
class Embodied:
    """TE of a device or host [gCO2e] without the use phase; `stages` says what it covers.

    `includes_host` is true for the few published figures that already include the host's share:
    no host may be added to them.
    """

    te_g: Quantity
    tier: Tier
    stages: str
    includes_host: bool = False

    def scaled(self, share: float) -> Embodied:
        """TE of a share of it, or of several of it [gCO2e]."""
        return replace(self, te_g=self.te_g.scaled(share))
