"""Names that users give and that are not hardware: services, software, kinds of hardware.

Each has the hardware and instances that it runs on, where those are known, and a sentence for the
user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gramwatt.sci.base.name_index import all_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A name that is not hardware: what it runs on, and a sentence for the user.

    `hardware` are catalog ids; `providers` and `families` select instances.
    """

    name: str
    names: tuple[str, ...]
    hardware: tuple[str, ...]
    providers: tuple[str, ...]
    families: tuple[str, ...]
    reason: str

    def runs_on(self, provider: str, family: str) -> bool:
        """Tell whether it runs on the instances of a family of a provider."""
        return provider in self.providers or family in self.families


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name stands for: hardware and instances (ids), and a sentence for the user."""

    hardware: tuple[str, ...]
    instances: tuple[str, ...]
    reason: str


def service_index(services: Iterable[Service]) -> Mapping[str, Service]:
    """Return services by the key of each name; raises ValueError for a name of two services."""
    found: dict[str, Service] = {}
    for service in services:
        for name in dict.fromkeys((service.name, *service.names)):
            if found.setdefault(service_key(name), service) is not service:
                raise ValueError(f"service name {name!r} stands for two")
    return found


def service_key(name: str) -> str:
    """Return the key of a name: its words without case, spaces and punctuation."""
    return "".join(all_words(name))
