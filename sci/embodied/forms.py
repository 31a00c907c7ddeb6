"""The parts that a device's name may mean, and what embodied carbon stands for them together.

A name means one part; or several, as "H100" does: then the commonest is counted, and the range
holds all. A name that is not in the catalog has a *family*: the parts that it shares a maker and
most of its name with, of the memory and power that were seen. `tests/sci/embodied/test_forms.py`
leaves each part of the catalog out in turn and looks for it by its family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from statistics import median_low, quantiles
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.names import find_matches, words
from gramwatt.sci.catalog.slices import find_part, split_name
from gramwatt.sci.embodied.te import Embodied, accelerator_te, host_share_te, whole_computer_te
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed, ScoreError
from gramwatt.sci.figures.quantity import Quantity, of_sources
from gramwatt.sci.figures.units import kg_from_g

Meaning = Literal["part", "several", "family"]
WITH_HOST = ("computer", "edge")
"""Classes of hosts that are no more than what holds the part: the whole of it counts."""
SAME_MEMORY = 1.15
"""Ratio of marketed memory to what a driver reports: 16 GB with error correction are 15."""
LIKE = 1.5
"""Ratio of memory or power within which a part of a family is like another."""
LEAST = 3
"""Fewest parts of a family before memory and power are compared, where the maker has so many."""
NAMED_AT_MOST = 4
"""Most parts of a family that a sentence names."""
_DIGITS, _SIZE = re.compile(r"\d+"), re.compile(r"\d*g(i?b)?|\d+")


class Seen(Struct, frozen=True):
    """What is known of a device beside its name: memory [GiB], power limit [W], class.

    `includes_host` says whether what was read is the power of a whole computer or module.
    """

    device_class: str | None = None
    memory_gib: float | None = None
    limit_w: float | None = None
    includes_host: bool | None = None


NOTHING_SEEN = Seen()


class Forms(Struct, frozen=True):
    """The parts that a name may mean, the commonest first; of a family in the catalog's order."""

    name: str
    meaning: Meaning
    parts: tuple[Hardware, ...]

    @property
    def part(self) -> Hardware | None:
        """Return the part of a name that means one."""
        return self.parts[0] if self.meaning == "part" else None

    @property
    def sentence(self) -> str:
        """Return what the name means, and what is counted for it."""
        ids = [part.id for part in self.parts]
        if self.meaning == "part":
            return f"{self.name} is {ids[0]}."
        if self.meaning == "several":
            return (
                f"{self.name!r} may be {' or '.join(ids)}: {ids[0]}, the commonest, is counted, "
                "and the range holds all. An overlay can give the name to one of them."
            )
        some = f"{len(ids)} parts, such as {ids[0]}" if len(ids) > NAMED_AT_MOST else ", ".join(ids)
        return (
            f"{self.name!r} is not in the catalog: the middle of what is like it ({some}) is "
            "counted. An overlay can add it."
        )


@lru_cache(maxsize=1024)
def forms(catalog: Catalog, name: str, seen: Seen = NOTHING_SEEN) -> Forms:
    """Return the parts that a device's name means, in the light of what is seen of the device.

    Cached, because a store scores many jobs of a few devices.
    """
    board, piece = split_name(name)
    whole = replace(seen, memory_gib=None) if piece else seen  # a slice has a part of the memory
    try:
        return Forms(name, "part", (catalog.hardware(board),))
    except AmbiguousName as error:
        choices = _fitting([catalog.hardware(choice) for choice in error.choices], whole)
        return Forms(name, "several" if len(choices) > 1 else "part", _common(catalog, choices))
    except LookupFailed as error:
        of_service = error.close if error.reason else ()
        pool = [catalog.hardware(part) for part in of_service] or catalog.all_hardware()
        return Forms(name, "family", _family(pool, board, whole))


def matches(catalog: Catalog, name: str) -> tuple[list[Hardware], str | None]:
    """Return what a name means as `find_matches` does, several forms in order and with a sentence.

    Raises LookupFailed for a name that means nothing.
    """
    board, piece = split_name(name)
    parts, reason = find_matches(catalog.hardware, board)
    if piece and len(parts) == 1:
        return parts, _slice_text(catalog, name)
    if len(parts) == 1 or reason is not None:
        return parts, reason
    means = forms(catalog, name)
    return list(means.parts), means.sentence


def _slice_text(catalog: Catalog, name: str) -> str | None:
    """Return what a name says a device has of its board; None of one that has all of it."""
    try:
        part, on_slice = find_part(catalog, name)
    except ScoreError as error:
        return error.message
    if on_slice is None:
        return None
    share, memory = f"{on_slice.share:.3g} of {part.id}", f"{on_slice.memory_gib:g} GiB"
    return f"{name} is {share}, with {memory} of its memory: that board is"


class Instead(Struct, frozen=True):
    """What a job on a device of an unknown name counts: parts like it, and TE of a device."""

    hardware: list[str]
    embodied_g: Quantity

    @property
    def sentence(self) -> str:
        """Return that for people."""
        figure, ids = self.embodied_g, self.hardware
        value, low, high = (kg_from_g(end) for end in (figure.value, figure.low, figure.high))
        like = f"{len(ids)} parts like it" if len(ids) > NAMED_AT_MOST else ", ".join(ids)
        figures = f"{value:.3g} kgCO2e ({low:.3g} to {high:.3g})"
        return f"A job on it counts {figures} a device, as of {like}."


def instead(catalog: Catalog, name: str) -> Instead:
    """Return what stands for a device of a name that the catalog does not have."""
    means = forms(catalog, name)
    return Instead([part.id for part in means.parts], forms_te(catalog, means).te_g.bare())


def family_of(catalog: Catalog, part: Hardware) -> Forms:
    """Return the parts like one of the catalog that has no embodied carbon of its own."""
    apart = part.host_class in WITH_HOST
    seen = Seen(part.device_class, part.memory_gb, part.tdp_w, apart)
    pool = [other for other in catalog.all_hardware() if other.id != part.id]
    return Forms(part.id, "family", _family(pool, f"{part.vendor} {part.name}", seen))


def part_te(catalog: Catalog, part: Hardware) -> Embodied:
    """Return TE of one device [gCO2e]: its own, of the computer that it is, or its family's."""
    if own := accelerator_te(part):
        return own
    if part.host_class in WITH_HOST:
        return whole_computer_te(part.host_class)
    return forms_te(catalog, family_of(catalog, part))


def forms_te(catalog: Catalog, of: Forms) -> Embodied:
    """Return TE of what a name means [gCO2e], without parts that count their host otherwise.

    Of several parts the first, from the lowest low end to the highest; of a family the median, from
    the 10th percentile of low ends to the 90th of high ones.
    """
    members = [part_te(catalog, part) for part in of.parts]
    alike = [te for te in members if te.includes_host == members[0].includes_host]
    if len({te.te_g for te in alike}) == 1:
        return alike[0]
    values = [te.te_g.value for te in alike]
    lows, highs = [te.te_g.low for te in alike], [te.te_g.high for te in alike]
    if of.meaning == "several":
        value, low, high = values[0], min(lows), max(highs)
    else:
        value = median_low(values)
        low, high = min(value, _tenth(lows, 0)), max(value, _tenth(highs, -1))
    own = dict.fromkeys(s for part in of.parts for s in part.own_sources)
    source = f"{of.name}: {len(alike)} parts that it may be"
    figure = of_sources(value, low, high, "gCO2e", "estimated", (source, *own))
    figure = figure.as_input(f"te:forms:{of.parts[0].id}:{len(alike)}")
    stages = f"{alike[0].stages}, of {len(alike)} parts"
    return Embodied(figure, "D", stages, alike[0].includes_host)


def forms_host_te(of: Forms, count: float = 1.0) -> Embodied | None:
    """Return TE beside so many devices of what a name means [gCO2e]; see `host_share_te`."""
    usual = [host_share_te(part, count) for part in of.parts]
    members = [te for te in usual if te]
    if not members:
        return None
    by_value = sorted(members, key=lambda te: te.te_g.value)
    first = by_value[(len(members) - 1) // 2] if of.meaning == "family" else members[0]
    low, high = min(te.te_g.low for te in members), max(te.te_g.high for te in members)
    if (low, high) == (first.te_g.low, first.te_g.high):
        return first
    figure = of_sources(first.te_g.value, low, high, "gCO2e", "estimated", first.te_g.sources)
    return replace(first, te_g=figure.as_input("te:host:forms"))


def _tenth(values: Sequence[float], end: int) -> float:
    """Return the 10th (`end` 0) or 90th percentile (-1)."""
    return quantiles(values, n=10, method="inclusive")[end] if len(values) > 1 else values[0]


def _common(catalog: Catalog, parts: Sequence[Hardware]) -> tuple[Hardware, ...]:
    """Return parts by the number of cloud instances that have them, most first."""
    ids = [instance.hardware for instance in catalog.all_instances()]
    return tuple(sorted(parts, key=lambda part: -ids.count(part.id)))


def _fitting(parts: Sequence[Hardware], seen: Seen) -> Sequence[Hardware]:
    """Return the parts of a shared name that fit what is seen, all of them where none does."""

    def fits(part: Hardware) -> bool:
        memory = _ratio(part.memory_gb, seen.memory_gib)
        return part.host_class in WITH_HOST or memory <= SAME_MEMORY

    def allowed(part: Hardware) -> bool:  # limits are lowered, not raised
        return not (part.tdp_w and seen.limit_w) or seen.limit_w <= 1.05 * part.tdp_w

    return _narrowed(parts, (fits, allowed))


def _family(pool: Sequence[Hardware], name: str, seen: Seen) -> tuple[Hardware, ...]:
    """Return the parts of a pool that share most with a name, and are like what is seen."""
    shape = _shape(name)
    pool = _narrowed(
        [part for part in pool if part.host_class in WITH_HOST or accelerator_te(part)],
        (
            lambda part: seen.includes_host in (None, part.host_class in WITH_HOST),
            lambda part: bool(set(words(part.vendor)) & shape),
            lambda part: seen.device_class in (None, part.device_class),
        ),
    )
    shares = {part.id: len(_shape(f"{part.vendor} {part.name}") & shape) for part in pool}
    least = sorted(shares.values())[-LEAST:][0]
    nearest = _narrowed(
        [part for part in pool if shares[part.id] >= least],
        (
            lambda part: _ratio(part.memory_gb, seen.memory_gib) <= LIKE,
            lambda part: _ratio(part.tdp_w, seen.limit_w) <= LIKE,
        ),
    )
    return tuple(nearest)


def _shape(name: str) -> set[str]:
    """Return the words of a name with "#" for numbers, without sizes: "M5 Pro" is {"m#", "pro"}."""
    return {_DIGITS.sub("#", word) for word in words(name) if not _SIZE.fullmatch(word)}


def _narrowed(
    parts: Sequence[Hardware], tests: Iterable[Callable[[Hardware], bool]]
) -> Sequence[Hardware]:
    """Return the parts that pass each test in turn; a test that none passes is left out."""
    for test in tests:
        parts = [part for part in parts if test(part)] or parts
    return parts


def _ratio(one: float | None, other: float | None) -> float:
    """Return the greater of two figures over the smaller; 1 where one is not known."""
    return max(one / other, other / one) if one and other else 1.0
