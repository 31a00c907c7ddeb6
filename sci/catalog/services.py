"""Names that are no hardware: cloud services, software and kinds of hardware, and what they mean.

They answer with what they run on, where that is known, or with the reason why they cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gramwatt.sci.base.csv_data import Row
from gramwatt.sci.base.name_index import all_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A name that is no hardware: what it runs on, and the sentence that says so.

    `hardware` holds catalog ids, `providers` and `families` select instances.
    """

    name: str
    names: tuple[str, ...]
    hardware: tuple[str, ...]
    providers: tuple[str, ...]
    families: tuple[str, ...]
    reason: str

    def runs_on(self, provider: str, family: str) -> bool:
        """Whether it runs on the instances of a provider's family."""
        return provider in self.providers or family in self.families


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name means that is not of the kind it was asked as: ids and the sentence about it."""

    hardware: tuple[str, ...]
    instances: tuple[str, ...]
    reason: str


def parse_service(row: Row) -> Service:
    """A name from its line in services.csv."""
    return Service(
        name=row.text("name"),
        names=row.listing("names"),
        hardware=row.listing("hardware"),
        providers=row.listing("providers"),
        families=row.listing("families"),
        reason=row.text("reason"),
    )


def service_index(services: Iterable[Service]) -> Mapping[str, Service]:
    """Services by the key of each of their names; raises ValueError for a name given twice."""
    found: dict[str, Service] = {}
    for service in services:
        for name in dict.fromkeys((service.name, *service.names)):
            if found.setdefault(service_key(name), service) is not service:
                raise ValueError(f"service name {name!r} stands for two")
    return found


def service_key(name: str) -> str:
    """What a service is looked up by: its words without case, spaces and punctuation."""
    return "".join(all_words(name))
