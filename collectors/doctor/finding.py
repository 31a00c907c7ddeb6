"""The result of one check, and the machine that is checked, which tests replace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from gramwatt.collectors.devices.board import Place
from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.sci.figures.host_model import RelativeRange
from gramwatt.sci.figures.meters import relative_range
from gramwatt.sci.figures.quantity import Kind

State = Literal["ok", "limited", "missing", "off", "absent"]
"""ok: works. limited: works in part. missing: would be needed. off: switched off. absent: this
machine has none, and nothing is wrong with that."""


class Finding(Struct, frozen=True):
    """The result of one check: what was checked, its state, the detail, and how to fix it.

    `kind` says how energy from this source is known, where it gives any, and `meter` what gives
    it, where that has a range of its own (`meters.relative_range`).
    """

    what: str
    state: State
    detail: str
    fix: str | None = None
    kind: Kind | None = None
    meter: str = ""

    @property
    def range(self) -> RelativeRange | None:
        """The range of energy from this source, as factors of it."""
        return relative_range(self.kind, self.meter) if self.kind else None

    @property
    def spread(self) -> float | None:
        """Return how far the true energy may lie above, as a fraction; below, mostly as far."""
        return round(self.range.high - 1, 9) if self.range else None

    def to_doc(self) -> dict[str, Any]:
        """Return this finding as JSON-ready data."""
        return {
            "what": self.what,
            "state": self.state,
            "detail": self.detail,
            "kind": self.kind,
            "energy_spread": self.spread,
            "energy_spread_source": self.range.source if self.range else None,
            "fix": self.fix,
        }


class Target(Struct, frozen=True):
    """The machine to check: its files and environment, and its NVML."""

    place: Place = field(default_factory=Place)
    nvml: Nvml | None = None

    @property
    def root(self) -> Path:
        """The root of the file system."""
        return self.place.root

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment."""
        return self.place.environ

    @property
    def in_container(self) -> bool:
        """Return whether this is a container, by the files and variables that engines leave."""
        marks = (self.root / ".dockerenv", self.root / "run/.containerenv")
        return "KUBERNETES_SERVICE_HOST" in self.environ or any(path.exists() for path in marks)
