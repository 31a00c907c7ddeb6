"""Intel's discrete GPUs through the kernel's hwmon counters. Never run on the hardware.

Files follow the kernel's documents sysfs-driver-intel-xe-hwmon and -i915-hwmon: energy<n>_input
[uJ], power<n>_max and its like [uW]; of xe the first is the card's and the second the
package's, and a card may have only that or, by public reports, a first one that stays 0. There is
no power to read, and only discrete GPUs have the counters. The kernel adds up 32 bits of hardware
at each reading: a meter that was away for minutes may miss a turn of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import (
    ACCELERATOR,
    DISPLAY,
    INTEL,
    INTEL_GRAPHICS,
    Billed,
    Board,
    DevicePort,
    NotSupported,
    Place,
    ReadFailed,
    Visible,
    figure_in,
    in_processor,
    may_render,
    offered,
    pci_devices,
)
from gramwatt.collectors.settings.files import text_of
from gramwatt.sci.figures.units import mj_from_uj, mw_from_uw, w_from_mw

DRIVERS = ("i915", "xe")
CHANNELS = ("1", "2")
"""Of the card and of its package."""
LIMITS = ("max", "cap", "rated_max", "crit")
"""Sustained, for short, by default, and at which the card throttles at once, the only one that some
have (nvtop #409); each may be 0 for off, or absent (nvtop #493)."""
MASK, HIERARCHY, SELECTOR = "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR"
BY_ADDRESS = "ZE_ENABLE_PCI_ID_DEVICE_ORDER"
_SELECTED = re.compile(r"(?:level_zero|\*):(\d+(?:,\d+)*)", re.IGNORECASE)


class Counter(NamedTuple):
    """The hwmon folder of a GPU, and the channel that counts its energy there."""

    folder: Path
    channel: str

    def energy_uj(self) -> float:
        """Return the energy [uJ]; raises ReadFailed."""
        return figure_in(self.folder / f"energy{self.channel}_input")


class Tile(NamedTuple):
    """One tile of a card, which Level Zero by default counts as a device."""

    board: Board | None
    """None for graphics inside the processor, which are in its energy."""
    number: int


class IntelGpu(DevicePort):
    """Discrete GPUs whose render nodes the job may open, in order of their PCI addresses."""

    vendor, title = "Intel", "Intel discrete GPU"
    meter = "intel-hwmon"
    device_class = "gpu"
    variables = (MASK, HIERARCHY, SELECTOR, BY_ADDRESS)

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job can use a discrete GPU of Intel."""
        return bool(cards(place.root))

    def open(self) -> None:
        """List the GPUs and their counters."""
        self._cards = cards(self.root)
        self._counters: list[Counter | None] = [counter(card) for card in self._cards]

    def count(self) -> int:
        """Return the number of GPUs listed; a card of two tiles is one."""
        return len(self._cards)

    def board(self, index: int) -> Board:
        """Return a GPU by its PCI id, which is all that the kernel tells of its model."""
        card = self._cards[index]
        device = (text_of(card / "device") or "").removeprefix("0x")
        return Board(index, f"intel-{card.name}", f"Intel Graphics [8086:{device}]")

    def remarks(self) -> tuple[str, ...]:
        """Return which cards have no counter of the whole card."""
        both = zip(self._cards, self._counters, strict=True)
        names = [card.name for card, own in both if own and own.channel != CHANNELS[0]]
        text = "Intel's driver counts the package and not the whole card; what else the card takes "
        return (f"{text}is not in the energy of the GPU at {', '.join(names)}.",) if names else ()

    def energy_mj(self, index: int) -> float:
        """Return the energy counter [mJ] of the card, else of its package."""
        own = self._counters[index]
        if own is None:
            self._counters[index] = counter(self._cards[index])
            raise NotSupported(self.why_unread(index))
        try:
            return mj_from_uj(own.energy_uj())
        except ReadFailed:
            # The kernel may give the same sensor another number.
            self._counters[index] = counter(self._cards[index]) or own
            raise

    def limit_w(self, index: int) -> float | None:
        """Return the sustained power limit [W], else the next of `LIMITS`."""
        own = self._counters[index]
        paths = [own.folder / f"power{own.channel}_{name}" for name in LIMITS] if own else []
        limits_uw = (offered(partial(figure_in, path)) for path in paths)
        limit_uw = next((limit for limit in limits_uw if limit), None)
        return None if limit_uw is None else w_from_mw(mw_from_uw(limit_uw))

    def why_unread(self, index: int) -> str:
        """Return why nothing is read: a guest's part of a card has no counter."""
        return (
            "the kernel has no energy counter of it in hwmon (i915 since Linux 6.2, xe since 6.8); "
            "a virtual machine's part of a card never has one, ask the host; a job that does not "
            f"use it is started with {SELECTOR}=*:cpu"
        )

    def wants_none(self, environ: Mapping[str, str]) -> bool:
        """Return whether ONEAPI_DEVICE_SELECTOR gives the job processors only."""
        filters = environ.get(SELECTOR, "").lower().split(";")
        return all(text.strip().endswith(":cpu") for text in filters)

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the GPUs of the job, by ZE_AFFINITY_MASK and ONEAPI_DEVICE_SELECTOR."""
        inside = self.root / "sys/bus/pci/devices" / INTEL_GRAPHICS
        listed = in_processor(self.root, inside.name) and may_render(self.root, inside)
        sizes = [tiles(card) for card in self._cards]
        return visible(environ, boards, sizes, graphics=listed and inside not in self._cards)


def cards(root: Path) -> list[Path]:
    """Return the folders in sysfs of the discrete GPUs whose render nodes this process may open.

    Of a card that is divided into virtual functions the card alone: its counter holds them.
    """
    usable = {}
    for card in pci_devices(root, INTEL, DISPLAY, ACCELERATOR):
        if may_render(root, card) and (not in_processor(root, card.name) or counter(card)):
            usable[card.name] = card
    whole = [name for name in usable if (usable[name] / "physfn").resolve().name not in usable]
    return [usable[name] for name in sorted(whole)]


def counter(card: Path) -> Counter | None:
    """Return the counter of a GPU: the first that counts, else the first; None without any."""
    folders = [path for path in card.glob("hwmon/hwmon*") if text_of(path / "name") in DRIVERS]
    channels = [Counter(folder, channel) for folder in folders for channel in CHANNELS]
    values = [(own, offered(own.energy_uj)) for own in channels]
    readable = [(own, value) for own, value in values if value is not None]
    return next((own for own, value in readable if value), readable[0][0] if readable else None)


def tiles(card: Path) -> int:
    """Return how many tiles a card has (xe: tile<n>; i915: gt<n>)."""
    return len([*card.glob("tile[0-9]*")]) or len([*card.glob("drm/card*/gt/gt[0-9]*")]) or 1


def visible(
    environ: Mapping[str, str],
    boards: Sequence[Board],
    tiles_of: Sequence[int],
    *,
    graphics: bool = False,
) -> Visible:
    """Return the devices of the job.

    ZE_AFFINITY_MASK names devices (`0`) and tiles (`0.1`); ONEAPI_DEVICE_SELECTOR
    (`level_zero:0,1`) chooses among these. Both count tiles as devices, or cards where
    ZE_FLAT_DEVICE_HIERARCHY is COMPOSITE (Level Zero's specification). A card is billed by the
    fraction of its tiles. `graphics` inside the processor are listed too: last, or by their
    address, which is the first.
    """
    of_cards = [
        [Tile(board, number) for number in range(count)]
        for board, count in zip(boards, tiles_of, strict=True)
    ]
    by_card = environ.get(HIERARCHY, "").strip().upper() == "COMPOSITE"
    devices = of_cards if by_card else [[tile] for card in of_cards for tile in card]
    by_address = environ.get(BY_ADDRESS) == "1"
    if graphics:
        devices.insert(0 if by_address else len(devices), [Tile(None, 0)])
    remarks: list[str] = []
    selected = _SELECTED.fullmatch(environ.get(SELECTOR, "").strip())
    entries = visibility.split(environ.get(MASK, ""))
    for name, texts in ((MASK, entries), (SELECTOR, selected[1].split(",") if selected else [])):
        if texts:
            chosen = [(text, _chosen(text, devices)) for text in texts]
            absent = [text for text, parts in chosen if not parts]
            remarks += [f"{name} names {text!r}, which is not here." for text in absent]
            devices = [parts for _, parts in chosen if parts]
    billed = {tile for device in devices for tile in device}
    fractions = [
        (board, sum(tile.board is board for tile in billed) / count)
        for board, count in zip(boards, tiles_of, strict=True)
    ]
    items = tuple(Billed(board, board.uuid, fraction) for board, fraction in fractions if fraction)
    if len(items) < len(boards) and not by_address:
        text = f"indices are taken in order of PCI addresses; with {BY_ADDRESS}=1 they are."
        remarks.append(text)
    return Visible(items, tuple(remarks))


def _chosen(entry: str, devices: Sequence[list[Tile]]) -> list[Tile]:
    number, dot, tile = entry.partition(".")
    device = devices[int(number)] if number.isdecimal() and int(number) < len(devices) else []
    return [part for part in device if not dot or tile == str(part.number)]
