"""How a server's C library keeps memory: large blocks go back to the system when they are freed."""

from __future__ import annotations

import ctypes
import sys

_M_MMAP_THRESHOLD = -3  # mallopt(3), malloc.h of glibc
_LARGE_B = 128 * 1024


def return_large_blocks() -> None:
    """Keep the size from which glibc maps a block of its own at 128 KiB.

    glibc raises it to the largest block freed so far, up to 32 MiB: each large body then leaves a
    hole in one of many heaps, and a server that has read some keeps half as much memory again.
    Elsewhere than with glibc nothing changes.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, _LARGE_B)
