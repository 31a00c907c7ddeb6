"""Devices whose counter holds the host's processor and memory too, so that both count once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from gramwatt.sci.journal.records import AnyRecord, DeviceRecord, IntervalRecord

HOST_CLASSES = ("cpu", "ram")


def without_hosts_in_modules(records: Sequence[AnyRecord]) -> tuple[list[AnyRecord], bool]:
    """The records without processor and memory of a node while a module's counter holds them.

    A meter leaves them out itself, unless it learns of the module later, from another rank. Returns
    the records and whether any was left out: intervals from the module's first to its last one, and
    host devices of which no interval is left.
    """
    devices = [record for record in records if isinstance(record, DeviceRecord)]
    modules = {(device.node, device.device_id) for device in devices if device.includes_host}
    if not modules:
        return list(records), False
    intervals = [record for record in records if isinstance(record, IntervalRecord)]
    spans = _spans(i for i in intervals if (i.node, i.device_id) in modules)
    hosts = {device.device_id for device in devices if device.device_class in HOST_CLASSES}
    kept = [
        record
        for record in records
        if not (isinstance(record, IntervalRecord) and record.device_id in hosts)
        or record.node not in spans
        or record.end <= spans[record.node][0]
        or record.start >= spans[record.node][1]
    ]
    left = {record.device_id for record in kept if isinstance(record, IntervalRecord)}
    gone = {d.device_id for d in devices if d.node in spans and d.device_id in hosts - left}
    kept = [r for r in kept if not (isinstance(r, DeviceRecord) and r.device_id in gone)]
    return kept, len(kept) < len(records)


def _spans(intervals: Iterable[IntervalRecord]) -> dict[str, tuple[datetime, datetime]]:
    """From the first start to the last end of the intervals of each node."""
    spans: dict[str, tuple[datetime, datetime]] = {}
    for interval in intervals:
        first, last = spans.get(interval.node, (interval.start, interval.end))
        spans[interval.node] = min(first, interval.start), max(last, interval.end)
    return spans
