"""Intervals in columns: there are millions, so an upload's are read, checked and stored together.

What is usual of a meter is decided here for many lines at once. Whatever is not goes line by line
through `sci/journal/records.py`, which knows the rules, and says which of them a line breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from operator import gt, sub
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.base.quantity import Kind
from gramwatt.sci.journal.bounds import LEAST_W, MOST, PROFILE_MOST
from gramwatt.sci.journal.records import (
    ID_PATTERN,
    INTERVAL_BEGINS,
    LINE_MAX_B,
    LONGEST_S,
    IntervalRecord,
    profile_name,
)
from gramwatt.sci.journal.telemetry import NAMES
from gramwatt.service.store.documents import to_text
from gramwatt.service.store.timestamps import to_us

_NAMED, _TEXTS = 11, 8
"""Fields that every interval has, and how many of them are texts."""
_TELEMETRY = frozenset(NAMES)
_NO_PROFILE = frozenset(("null", "{}"))
_LEAST_J_PER_US = LEAST_W * 1e-6
_LONGEST_US = round(LONGEST_S * 1e6)
_Share = Annotated[float, Meta(ge=0, le=MOST["utilisation_mean"])]
_Memory = Annotated[float, Meta(ge=0, le=MOST["memory_peak_b"])]
_Power = Annotated[float, Meta(ge=0, le=MOST["power_max_w"])]
_ProfileFigure = Annotated[float, Meta(ge=-PROFILE_MOST, le=PROFILE_MOST)]
_encode = msgspec.json.Encoder()


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An interval's line, with the bounds that `sci/journal/records.py` sets."""

    v: Literal[1]
    type: Literal["interval"]
    job_id: str
    node: str
    writer: str
    seq: Any
    device_id: str
    start: str
    end: str
    energy_j: Annotated[float, Meta(ge=0)]
    kind: Kind
    utilisation_mean: _Share | None = None
    utilisation_max: _Share | None = None
    memory_peak_b: _Memory | None = None
    power_max_w: _Power | None = None
    profile: Annotated[dict[str, _ProfileFigure], Meta(max_length=64)] | None = None


_parse = msgspec.json.Decoder(_Line).decode_lines


@dataclass(slots=True)
class Intervals:
    """Intervals of one job, a list for each field, as they are stored; texts of `profile` and
    `extra` are JSON, None where there is none.
    """

    node: list[str] = field(default_factory=list)
    writer: list[str] = field(default_factory=list)
    seq: list[int] = field(default_factory=list)
    device_id: list[str] = field(default_factory=list)
    start_us: list[int] = field(default_factory=list)
    end_us: list[int] = field(default_factory=list)
    energy_j: list[float] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    utilisation_mean: list[float | None] = field(default_factory=list)
    utilisation_max: list[float | None] = field(default_factory=list)
    memory_peak_b: list[float | None] = field(default_factory=list)
    power_max_w: list[float | None] = field(default_factory=list)
    profile: list[str | None] = field(default_factory=list)
    extra: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seq)

    def columns(self) -> list[list[Any]]:
        """The lists, in the order of the fields."""
        return [getattr(self, name) for name in _COLUMNS]

    def extend(self, columns: Iterable[Sequence[Any]]) -> None:
        """Add intervals in columns, in the order of the fields."""
        for own, more in zip(self.columns(), columns, strict=True):
            own.extend(more)

    def append(self, record: IntervalRecord) -> None:
        """Add the interval of a record."""
        stored: dict[str, Any] = {
            "start_us": to_us(record.start),
            "end_us": to_us(record.end),
            "profile": _encode.encode(record.profile).decode() if record.profile else None,
            "extra": to_text(record.extra) if record.extra else None,
        }
        for name, own in zip(_COLUMNS, self.columns(), strict=True):
            own.append(stored[name] if name in stored else getattr(record, name))


_COLUMNS = tuple(one.name for one in fields(Intervals))


def read_intervals(job_id: str, text: bytes) -> list[Sequence[Any]] | None:
    """The job's intervals in lines, in the columns of `Intervals`.

    None if any line does not begin as `INTERVAL_BEGINS` or is not what meters write, in which case
    each has to be read by itself, or has energy that only some classes of devices can draw.
    """
    if not text.startswith(INTERVAL_BEGINS) or len(text) > LINE_MAX_B:
        return None
    rows = 1 + count_of(text, b"\n")
    if text.count(b"\n" + INTERVAL_BEGINS) != rows - 1:
        return None
    try:
        found = _parse(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if len(found) != rows:  # two in a line
        return None
    columns = zip(*map(msgspec.structs.astuple, found), strict=True)
    _, _, jobs, nodes, writers, seqs, devices, starts, ends, energies_j, kinds, *rest = columns
    *figures, profiles = rest
    named = _names_in(figures, profiles)
    # A name that is there twice has quotes that are not expected, and so has a text with a quote.
    if named is None or count_of(text, b'"') != 2 * (named + rows * _TEXTS):
        return None
    if {*jobs} != {job_id} or not all(map(ID_PATTERN.fullmatch, {*nodes, *writers, *devices})):
        return None
    times = _times_us(starts, ends)
    if times is None or not _are_usual(seqs, *times, energies_j):
        return None
    texts = _encode.encode_lines(profiles).decode().split("\n")[:-1]
    stored = [None if text in _NO_PROFILE else text for text in texts]
    nothing = [None] * rows
    return [nodes, writers, seqs, devices, *times, energies_j, kinds, *figures, stored, nothing]


def count_of(text: bytes, character: bytes) -> int:
    """How often a character is there; `bytes.count` takes four times as long."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(character)))


def _names_in(
    figures: Sequence[Sequence[float | None]], profiles: Sequence[dict[str, float] | None]
) -> int | None:
    """How many names lines have if none is there twice; None if one of a profile is no name."""
    rows = len(profiles)
    known = [profile for profile in profiles if profile is not None]
    names = set().union(*known)
    if not names <= _TELEMETRY:
        try:
            for name in names:
                profile_name(name)
        except (RecordError, ValueError):
            return None
    of_figures = sum([rows - figure.count(None) for figure in figures])
    return rows * _NAMED + of_figures + len(known) + sum(map(len, known))


def _times_us(starts: Sequence[str], ends: Sequence[str]) -> tuple[list[int], list[int]] | None:
    """Starts and ends [us since 1970]; None if one is not as meters write it.

    Devices are read at the same moments, and most intervals begin where another ends.
    """
    known = {}
    try:
        for text in {*starts, *ends}:
            when = datetime.fromisoformat(text)
            if when.tzinfo is not UTC or not 2000 <= when.year < 2200:
                return None
            known[text] = to_us(when)
    except ValueError:
        return None
    return [known[text] for text in starts], [known[text] for text in ends]


def _are_usual(
    seqs: Sequence[Any], starts_us: list[int], ends_us: list[int], energies_j: Sequence[float]
) -> bool:
    """Whether numbers and lengths are allowed, and any device may draw as much."""
    if set(map(type, seqs)) != {int} or min(seqs) < 1 or max(seqs) >= 2**53:
        return False
    lengths_us = list(map(sub, ends_us, starts_us))
    if min(lengths_us) <= 0 or max(lengths_us) > _LONGEST_US:
        return False
    return not any(map(gt, energies_j, [_LEAST_J_PER_US * length for length in lengths_us]))
