"""The hardware, place and energy that codecarbon states of a run, as journal records of a job.

Only energy, time and hardware are taken from it. Its emissions are not: intensity, embodied carbon
and PUE are those of this service. docs/codecarbon.md says what becomes what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from unicodedata import normalize

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.figures.units import j_from_kwh
from gramwatt.sci.records.records import DeviceRecord, IntervalRecord

NODE = "codecarbon"
"""Node of every run: codecarbon names no host."""
Part = Literal["gpu", "cpu", "ram"]
PARTS: tuple[Part, ...] = get_args(Part)
LONGEST = timedelta(days=1)
"""The longest interval of a journal."""
FALLBACK_PLACE = ("CAN", 46.8, -71.2)
"""Country, latitude and longitude that codecarbon states when it cannot look up where it is, with
the region Quebec (codecarbon/external/geography.py of 3.3.2)."""
GPUS_MOST = 1024
CPU_TEXT = (
    "it does not say whether the processor's energy was read or modelled, so it counts as estimated"
)
GPU_TEXT = "the energy of several GPUs comes as a sum, which is divided equally among them"
_GROUP = re.compile(r"(\d) x ")


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware of a run as codecarbon states it; `memory_b` is the machine's memory [B]."""

    version: str
    cpu_model: str
    threads: float | None
    gpus: tuple[str, ...]
    memory_b: float | None

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Machine:
        """Return the machine in codecarbon's own field names; what is missing there is unknown."""
        threads, memory_gib = fields.get("cpu_count"), fields.get("ram_total_size")
        return cls(
            version=str(fields.get("codecarbon_version") or "of unknown version"),
            cpu_model=str(fields.get("cpu_model") or "unknown CPU"),
            threads=threads if threads and threads > 0 else None,
            gpus=boards(fields.get("gpu_model") or "", int(fields.get("gpu_count") or 0)),
            memory_b=memory_gib * 2**30 if memory_gib and memory_gib > 0 else None,
        )

    def notices(self) -> tuple[str, ...]:
        """Return what codecarbon leaves out, as journaled notices."""
        texts = [CPU_TEXT, *([GPU_TEXT] if len(self.gpus) > 1 else [])]
        return tuple(notice(text) for text in texts)

    def devices(self, who: Mapping[str, Any], seq: int) -> list[DeviceRecord]:
        """Records of processor, memory and every GPU, numbered from `seq`.

        GPU energy is the driver's; memory is a model of codecarbon.
        """
        source = f"codecarbon {self.version}"[:200]
        rows: list[dict[str, Any]] = [
            {
                "device_id": "cpu",
                "device_class": "cpu",
                "name": self.cpu_model,
                "meter": f"{source}, RAPL or model",
                "kind": "estimated",
                "units": self.threads,
                "units_total": self.threads,
            },
            {
                "device_id": "ram",
                "device_class": "ram",
                "name": "memory",
                "meter": f"{source}, model of memory",
                "kind": "estimated",
                "memory_b": self.memory_b,
            },
        ]
        rows += [
            {
                "device_id": f"gpu-{number}",
                "device_class": "gpu",
                "name": name,
                "meter": f"{source}, GPU driver",
                "kind": "measured",
                "units_total": float(len(self.gpus)),
            }
            for number, name in enumerate(self.gpus)
        ]
        return [DeviceRecord(**who, seq=seq + at, **row) for at, row in enumerate(rows)]

    def intervals(
        self,
        who: Mapping[str, Any],
        seq: int,
        span: tuple[datetime, datetime],
        energy_kwh: Mapping[Part, float],
    ) -> list[IntervalRecord]:
        """Records of each device's energy over the span, numbered from `seq`.

        An energy of exactly 0 means that codecarbon could not measure the part, so it has none.
        """
        joules: dict[str, float] = {
            part: j_from_kwh(energy_kwh[part]) for part in ("cpu", "ram") if energy_kwh[part] > 0
        }
        if energy_kwh["gpu"] > 0:
            each = j_from_kwh(energy_kwh["gpu"]) / max(1, len(self.gpus))
            joules |= {f"gpu-{number}": each for number in range(max(1, len(self.gpus)))}
        length = span[1] - span[0]
        found: list[IntervalRecord] = []
        for start, end in _pieces(*span):
            for device_id, whole_j in joules.items():
                found.append(
                    IntervalRecord(
                        **who,
                        seq=seq + len(found),
                        device_id=device_id,
                        start=start,
                        end=end,
                        energy_j=whole_j * ((end - start) / length),
                        kind="measured" if device_id.startswith("gpu") else "estimated",
                    )
                )
        return found


def notice(text: str) -> str:
    """Return a remark on what codecarbon left out, as notices are journaled."""
    return f"codecarbon-limits: codecarbon: {text}."


def boards(model: str, count: int) -> tuple[str, ...]:
    """Return the name of each GPU in codecarbon's text, such as "2 x NVIDIA A100-SXM4-80GB".

    Names of several kinds follow each other without a mark ("1 x A1 x B"); where the numbers do not
    add up to `count`, the whole text is the name of every one.
    """
    count = min(count, GPUS_MOST)
    number, mark, name = model.partition(" x ")
    if mark and number == str(count):
        return (name.strip(),) * count
    numbers = _GROUP.findall(model)
    if sum(map(int, numbers)) == count and _GROUP.match(model):
        names = _GROUP.split(model)[2::2]
        return tuple(name for n, name in zip(numbers, names, strict=True) for _ in range(int(n)))
    return (model or "unknown GPU",) * count


def place(
    fields: Mapping[str, Any], catalog: Catalog
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Grid zone, cloud region and notices from country, region and cloud as codecarbon states them.

    A region within a country is used where the catalog has a zone of that name there.
    """
    country = fields.get("country_iso_code")
    provider, cloud_region = fields.get("cloud_provider"), fields.get("cloud_region")
    if provider and cloud_region:
        region = f"{provider}:{cloud_region}".lower()
        if not country or _is_known(region, catalog):
            return None, region, ()
    if (country, fields.get("latitude"), fields.get("longitude")) == FALLBACK_PLACE:
        text = "it could not look up where it ran and states Quebec instead, which is not used"
        return None, None, (notice(text),)
    if not country:
        return None, None, ()
    return _zone_in(str(country), str(fields.get("region") or ""), catalog), None, ()


def _is_known(region: str, catalog: Catalog) -> bool:
    try:
        catalog.region(region)
    except LookupFailed:
        return False
    return True


def _zone_in(country: str, region: str, catalog: Catalog) -> str | None:
    try:
        code = catalog.zone(country).zone
    except LookupFailed:
        return country  # the score says that no zone of that name is known
    named = (
        zone.zone
        for zone in catalog.all_zones()
        if zone.zone.startswith(f"{code}-") and _plain(zone.name) == _plain(region)
    )
    return next(named, code)


def _plain(name: str) -> str:
    """Return a name without accents, in small letters."""
    return normalize("NFKD", name).encode("ascii", "ignore").decode().lower()


def _pieces(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the span in steps of LONGEST from its start, so that a longer one has the same
    steps.
    """
    while end - start > LONGEST:
        yield start, start + LONGEST
        start += LONGEST
    yield start, end
