"""Accelerators that are seen and not read: a job that can use them has an energy that is not known.

Their files in /dev are those that their makers have a container given: Huawei's Ascend Docker
Runtime (hiascend.com) and Cambricon's MLUs (MinerU's guide to them).
"""

from __future__ import annotations

import os

from gramwatt.collectors.devices.board import DevicePort, Place, SourceAbsent


class Unread(DevicePort):
    """Accelerators whose files match `nodes` in /dev; no source of theirs is read."""

    nodes = ""

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job may open one of them."""
        return any(
            os.access(path, os.R_OK | os.W_OK) for path in (place.root / "dev").glob(cls.nodes)
        )

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
