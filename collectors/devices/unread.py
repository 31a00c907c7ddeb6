"""Accelerators that are seen and not read: a job that can use them has an energy that is not known.

Their files in /dev are those that their makers have a container given: Huawei's Ascend Docker
Runtime (hiascend.com), Cambricon's MLUs (MinerU's guide to them), Tenstorrent's cards
(docs.tenstorrent.com) and Qualcomm Cloud AI (docs.qualcomm.com; its PCI id: Linux, accel/qaic).
"""

from __future__ import annotations

from gramwatt.collectors.devices.board import (
    DevicePort,
    Place,
    SourceAbsent,
    accelerator_makers,
    may_open,
)


class Unread(DevicePort):
    """Accelerators whose files match `nodes` in /dev, of the PCI `maker` where several makers have
    such files; no source of theirs is read.
    """

    nodes = maker = ""

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job may open one of them."""
        theirs = not cls.maker or cls.maker in accelerator_makers(place.root)
        return theirs and may_open(place.root, cls.nodes)

    def open(self) -> None:
        """Raise SourceAbsent: there is nothing to open."""
        raise SourceAbsent("gramwatt reads no accelerator of this maker", seen=True)


class Ascend(Unread):
    """NPUs of Huawei."""

    vendor, title = "Huawei", "Ascend NPU"
    meter = "ascend"
    nodes = "davinci[0-9]*"


class Cambricon(Unread):
    """MLUs of Cambricon."""

    vendor, title = "Cambricon", "Cambricon MLU"
    meter = "cambricon"
    nodes = "cambricon_dev[0-9]*"


class Tenstorrent(Unread):
    """Cards of Tenstorrent."""

    vendor = title = "Tenstorrent"
    meter = "tenstorrent"
    nodes = "tenstorrent/[0-9]*"


class CloudAi(Unread):
    """Cards of Qualcomm for data centers."""

    vendor, title = "Qualcomm", "Qualcomm Cloud AI"
    meter = "qaic"
    nodes = "accel/accel[0-9]*"
    maker = "0x17cb"
