"""Accelerators that are seen and not read: a job that can use them has an energy that is not known.

Their files in /dev are those that a container is given: Huawei's Ascend Docker Runtime
(hiascend.com), MinerU's guides to Cambricon, Hygon, MetaX and Kunlunxin, docs.tenstorrent.com,
docs.qualcomm.com (its PCI id: Linux, accel/qaic), the toolkits of Rebellions and FuriosaAI, and for
the rest the images of FlagOS.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.devices.board import (
    DevicePort,
    Place,
    SourceAbsent,
    accelerator_makers,
    may_open,
)


class Maker(NamedTuple):
    """A maker's accelerators: their files in /dev, and their PCI vendor id where several makers
    have such files.
    """

    title: str
    nodes: str
    pci_id: str = ""


MAKERS = (
    Maker("Huawei Ascend", "davinci[0-9]*"),
    Maker("Cambricon MLU", "cambricon_dev[0-9]*"),
    Maker("Tenstorrent", "tenstorrent/[0-9]*"),
    Maker("Qualcomm Cloud AI", "accel/accel[0-9]*", "0x17cb"),
    Maker("Hygon DCU", "mkfd"),
    Maker("MetaX", "mxcd"),
    Maker("Kunlunxin", "xpu[0-9]*"),
    Maker("Iluvatar", "iluvatar[0-9]*"),
    Maker("Enflame", "gcu[0-9]*"),
    Maker("Moore Threads", "mtgpu*"),
    Maker("Rebellions", "rbln[0-9]*"),
    Maker("FuriosaAI", "rngd/npu[0-9]*"),
)


class Unread(DevicePort):
    """Accelerators of which no source is read, named by their maker."""

    vendor = title = "other makers' accelerators"
    meter = "unread"

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job may open one of them."""
        return bool(titles(place.root))

    @classmethod
    def at(cls, place: Place) -> DevicePort:
        """Return the port with the maker's name."""
        port = super().at(place)
        port.vendor = port.title = ", ".join(titles(place.root))
        return port

    def open(self) -> None:
        """Raise SourceAbsent: there is nothing to open."""
        raise SourceAbsent("gramwatt reads no accelerator of this maker", seen=True)


def titles(root: Path) -> list[str]:
    """Return whose accelerators this process may open."""
    makers = accelerator_makers(root)
    theirs = [maker for maker in MAKERS if not maker.pci_id or maker.pci_id in makers]
    return [maker.title for maker in theirs if may_open(root, maker.nodes)]
