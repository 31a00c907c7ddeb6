"""What a month is compared with: sums of the month before, which the store keeps as bytes.

Each job adds some 90 bytes, the share of its own inputs in the ranges; its part is 1.5 kB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gramwatt.sci.analysis.documents import MonthTotals
from gramwatt.service.months.sums.arrays import Names
from gramwatt.service.months.sums.decomposition import Side
from gramwatt.service.months.sums.figures import Ints
from gramwatt.service.months.sums.totals import Sums


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a month's document needs of the month before, without its parts."""

    totals: MonthTotals | None
    terms: Mapping[str, Sums]
    side: Side

    def to_bytes(self) -> bytes:
        """These sums with every digit, as MessagePack; their names, which they share, once."""
        names = self.side.terms[0].names
        return msgspec.msgpack.encode((names.names, names.bases, self), enc_hook=_plain)

    @classmethod
    def from_bytes(cls, packed: bytes) -> Earlier:
        """What `to_bytes` packed; raises msgspec.ValidationError for anything else."""
        parts = tuple[Ints, Ints, msgspec.Raw]
        names, bases, rest = msgspec.msgpack.decode(packed, type=parts, dec_hook=_array)
        shared = Names(names, bases)

        def restored(kind: Any, plain: Any) -> Any:
            return shared if kind is Names else _array(kind, plain)

        return msgspec.msgpack.decode(rest, type=cls, dec_hook=restored)


def _plain(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, Names):
        return None
    raise NotImplementedError(f"no sums: {type(thing)}")


def _array(_kind: Any, plain: Any) -> Any:
    kind, shape, content = plain
    return np.frombuffer(content, kind).reshape(shape)
